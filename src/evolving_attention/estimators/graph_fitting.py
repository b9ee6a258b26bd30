"""Full-batch training on one graph: a step an epoch, and the best weights kept."""

from __future__ import annotations

import dataclasses
import signal
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from evolving_attention import functional as F
from evolving_attention.autograd import no_grad
from evolving_attention.data.graph import sparse_rows
from evolving_attention.device_names import host_array
from evolving_attention.errors import DTypeError, NonFiniteError, ShapeError
from evolving_attention.estimators.fitting import FitResult
from evolving_attention.optim import AdamW

__all__ = [
    "GraphSettings",
    "cross_entropy",
    "inputs_of",
    "outputs",
    "step",
    "train",
]

Array = np.ndarray[Any, Any]
_IGNORED = -100  # the label of a node that does not count


@dataclasses.dataclass(frozen=True)
class GraphSettings:
    """How a model is trained on a graph.

    Attributes:
        n_epochs: steps.
        learning_rate: of Adam.
        weight_decay: λ; λ/2 · Σ θ² of all parameters is added to the loss.
        patience: epochs in a row in which neither the loss nor the accuracy of the
            validation nodes is as good as any before, after which training ends;
            None: never.
        on_epoch: called with the row of each epoch.
    """

    n_epochs: int
    learning_rate: float
    weight_decay: float
    patience: int | None
    on_epoch: Callable[[dict[str, float]], None] | None = None


def inputs_of(X: Any, graph: Any) -> dict[str, Any]:
    """Features and graph as a model takes them, a sparse matrix converted once.

    Raises:
        DTypeError, ShapeError: X is no matrix of numbers.
    """
    if hasattr(X, "tocsr"):
        values, cells = sparse_rows(X)
        return {"features": values, "feature_cells": cells, "graph": graph}
    features = np.asarray(X)
    if features.dtype.kind not in "fiub":
        raise DTypeError(
            f"X: {features.dtype}, expected numbers [nodes, features], or a sparse "
            "matrix of SciPy"
        )
    if features.ndim != 2:
        raise ShapeError(
            f"X: shape {features.shape}, expected [nodes, features]: a row for each "
            "node"
        )
    return {"features": features.astype(np.float32), "graph": graph}


def outputs(model: Any, inputs: dict[str, Any], **wanted: Any) -> Any:
    """A pass in evaluation mode, without gradients."""
    with no_grad():
        return model.eval()(**inputs, **wanted)


def cross_entropy(logits: Array, numbers: Array) -> float:
    """The mean cross entropy of rows of logits."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    chosen = shifted[np.arange(len(numbers)), numbers]
    return float((np.log(np.exp(shifted).sum(axis=1)) - chosen).mean())


class _Best:
    """The weights of the best epoch, by the rule of GAT's authors.

    An epoch whose loss or accuracy is as good as any before resets the patience; its
    weights are kept where both are.
    """

    def __init__(self, model: Any, patience: int | None) -> None:
        self.model, self.patience = model, patience
        self.loss, self.accuracy, self.epoch, self.waited = np.inf, -np.inf, 0, 0
        self.weights: dict[str, Array] = {}

    def take(self, epoch: int, loss: float, accuracy: float) -> bool:
        """Compare an epoch with those before; returns whether to go on."""
        if loss <= self.loss or accuracy >= self.accuracy:
            if loss <= self.loss and accuracy >= self.accuracy:
                self.keep(epoch)
            self.loss = min(self.loss, loss)
            self.accuracy = max(self.accuracy, accuracy)
            self.waited = 0
        else:
            self.waited += 1
        return self.patience is None or self.waited < self.patience

    def keep(self, epoch: int) -> None:
        self.epoch = epoch
        state = self.model.state_dict().items()
        self.weights = {name: value.copy() for name, value in state}


def train(
    model: Any,
    inputs: dict[str, Any],
    numbers: Array,
    training: Array,
    validation: Array,
    settings: GraphSettings,
) -> FitResult:
    """Train on the nodes ``training``; the model ends with its best weights.

    Args:
        model: a ``GATForNodeClassification``.
        inputs: of the model, for all nodes.
        numbers: the class of each node; others than those below are not read.
        training, validation: indices of nodes; without any of the second the last
            epoch's weights are kept.
        settings: see there.

    Ctrl-C ends the training with the best weights so far.

    Raises:
        NonFiniteError: the loss became NaN or infinite.
    """
    labels = np.full(len(numbers), _IGNORED, np.int64)
    labels[training] = numbers[training]
    parameters = list(model.parameters())
    optimizer = AdamW(parameters, lr=settings.learning_rate, weight_decay=0.0)
    best, history, interrupted = _Best(model, settings.patience), [], None
    began = time.monotonic()
    try:
        for epoch in range(1, settings.n_epochs + 1):
            loss = step(model, inputs, labels, optimizer, settings.weight_decay)
            if not np.isfinite(loss):
                raise NonFiniteError(
                    f"fit: the loss of epoch {epoch} is {loss}; lower learning_rate"
                )
            row = {"epoch": float(epoch), "loss": loss}
            going = True
            if len(validation):
                row.update(_scores(model, inputs, numbers, validation))
                going = best.take(
                    epoch, row["validation_loss"], row["validation_accuracy"]
                )
            history.append(row)
            if settings.on_epoch is not None:
                settings.on_epoch(row)
            if not going:
                break
    except KeyboardInterrupt:
        if not history:
            raise
        interrupted = signal.SIGINT.name
    if not len(validation):
        best.keep(len(history))
    if best.weights:
        model.load_state_dict(best.weights)
    model.eval()
    seconds = time.monotonic() - began
    return FitResult(history, best.epoch or len(history), seconds, interrupted)


def step(
    model: Any, inputs: dict[str, Any], labels: Array, optimizer: Any, decay: float
) -> float:
    """One update on the labelled nodes; returns the loss without the decay.

    Args:
        model: a ``GATForNodeClassification``.
        inputs: of the model.
        labels: int64 [nodes], -100 for nodes that do not count.
        optimizer: of the model's parameters, without decay of its own.
        decay: λ; λ/2 · Σ θ² is added to the loss.
    """
    out = model.train()(**inputs, labels=labels)
    total = out.loss
    if decay:
        for parameter in model.parameters():
            total = total + F.scale(F.sum(parameter * parameter), decay / 2)
    total.backward()
    optimizer.step()
    optimizer.zero_grad()
    return float(out.loss.item())


def _scores(
    model: Any, inputs: dict[str, Any], numbers: Array, nodes: Array
) -> dict[str, float]:
    logits = host_array(outputs(model, inputs).logits)[nodes].astype(np.float64)
    found = numbers[nodes]
    return {
        "validation_loss": cross_entropy(logits, found),
        "validation_accuracy": float((logits.argmax(axis=1) == found).mean()),
    }
