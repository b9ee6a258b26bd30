"""Full-batch training on one graph: one step per epoch; keeps the best weights."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from evolving_attention import functional as F
from evolving_attention.autograd import no_grad
from evolving_attention.data.graph import sparse_rows
from evolving_attention.device_names import host_array
from evolving_attention.errors import DTypeError, InputError, NonFiniteError, ShapeError
from evolving_attention.estimators.fitting import FitResult
from evolving_attention.optim import AdamW
from evolving_attention.training.interrupts import InterruptGuard

if TYPE_CHECKING:
    from evolving_attention.estimators.graph_nodes import GraphNodeClassifier

Array = np.ndarray[Any, Any]
_IGNORED = -100  # label of nodes that the loss ignores


def inputs_of(X: Any, graph: Any) -> dict[str, Any]:
    """Returns features and graph as model inputs; a sparse matrix is converted once.

    Raises:
        DTypeError, ShapeError: X is not a matrix of numbers.
        InputError: values of X are masked.
    """
    if hasattr(X, "tocsr"):
        values, cells = sparse_rows(X)
        return {"features": values, "feature_cells": cells, "graph": graph}
    if np.ma.is_masked(X):
        raise InputError(
            "X: has masked values, expected a number for each; fill them by "
            ".filled(value)"
        )
    try:
        features = np.asarray(X)
    except (TypeError, ValueError) as error:  # such as a sparse tensor of PyTorch
        raise DTypeError(
            f"X: {error}; expected numbers [nodes, features], or a sparse matrix of "
            "SciPy"
        ) from None
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
    """Runs the model in evaluation mode, without gradients."""
    with no_grad():
        return model.eval()(**inputs, **wanted)


def cross_entropy(logits: Array, numbers: Array) -> float:
    """Returns the mean cross entropy over rows of logits."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    chosen = shifted[np.arange(len(numbers)), numbers]
    return float((np.log(np.exp(shifted).sum(axis=1)) - chosen).mean())


class _Best:
    """Tracks the weights of the best epoch, by the rule of GAT's authors.

    An epoch whose loss or accuracy is as good as the best before resets the patience
    counter; its weights are kept if both are.
    """

    def __init__(self, model: Any, patience: int | None) -> None:
        self.model, self.patience = model, patience
        self.loss, self.accuracy, self.epoch, self.waited = np.inf, -np.inf, 0, 0
        self.weights: dict[str, Array] = {}

    def take(self, epoch: int, loss: float, accuracy: float) -> bool:
        """Compares an epoch with those before; returns whether to continue."""
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
    settings: GraphNodeClassifier,
    on_epoch: Callable[[dict[str, float]], None],
) -> FitResult:
    """Trains on the nodes ``training``; the model ends with its best weights.

    Args:
        model: a ``GATForNodeClassification``.
        inputs: model inputs for all nodes.
        numbers: the class of each node; only the nodes in the two sets below are read.
        training, validation: indices of nodes; if ``validation`` is empty, the last
            epoch's weights are kept.
        settings: the estimator, which holds the options of the training.
        on_epoch: called with the scores of each epoch.

    SIGINT (Ctrl-C), SIGTERM or SIGHUP ends the training after the running epoch, with
    the best weights so far.

    Raises:
        NonFiniteError: the loss became NaN or infinite.
        KeyboardInterrupt: a second signal came.
    """
    labels = np.full(len(numbers), _IGNORED, np.int64)
    labels[training] = numbers[training]
    parameters = list(model.parameters())
    optimizer = AdamW(parameters, lr=settings.learning_rate, weight_decay=0.0)
    best, history = _Best(model, settings.patience), []
    began = time.monotonic()
    with InterruptGuard() as guard:
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
            on_epoch(row)
            if not going or guard.received is not None:
                break
    if not len(validation):
        best.keep(len(history))
    if best.weights:
        model.load_state_dict(best.weights)
    model.eval()
    seconds = time.monotonic() - began
    interrupted = None if guard.received is None else guard.name
    return FitResult(history, best.epoch or len(history), seconds, interrupted)


def step(
    model: Any, inputs: dict[str, Any], labels: Array, optimizer: Any, decay: float
) -> float:
    """Runs one update on the labelled nodes; returns the loss without weight decay.

    Args:
        model: a ``GATForNodeClassification``.
        inputs: model inputs.
        labels: int64 [nodes], -100 for nodes that do not count.
        optimizer: optimizer of the model's parameters, without its own weight decay.
        decay: L2 penalty λ: λ/2 · Σ θ² is added to the loss.
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
