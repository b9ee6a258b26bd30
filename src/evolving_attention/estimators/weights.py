"""Weights of rows: reads and checks them, adds them to batches and to the loss."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evolving_attention import functional as F
from evolving_attention._core import Tensor
from evolving_attention.data.packed import Batch
from evolving_attention.data.series import SeriesRows
from evolving_attention.errors import ConfigError, InputError, ShapeError
from evolving_attention.estimators.targets import SERIES, Kind, refuse_masked

Array = np.ndarray[Any, Any]


def sample_weights(
    given: Any,
    count: int,
    least: int = 2,
    kind: Kind = SERIES,
    rows: Any = None,
) -> Array | None:
    """Returns ``sample_weight`` as float64 [rows]; None if all weights are equal.

    Args:
        given: the weights, one for each of the ``count`` rows, in any form.
        count: number of rows.
        least: number of rows whose weight must be above 0.
        kind: words for the rows, for messages.
        rows: numbers of the rows in use; weights of other rows are not read. None: all.

    Raises:
        ShapeError, InputError: there is not one weight >= 0 per row, or there are
            fewer than ``least`` weights above 0.
    """
    if given is None:
        return None
    if np.ndim(given) == 0:
        given = np.full(count, given)
    try:
        weights = np.asanyarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"sample_weight: {error}; expected one number for each {kind.one}"
        ) from None
    if weights.shape != (count,):
        raise ShapeError(
            f"sample_weight: shape {weights.shape} for {count} {kind.many}, expected "
            f"[{count}], one weight for each; check the selection"
        )
    rows = np.arange(count) if rows is None else np.asarray(rows)
    refuse_masked(weights[rows], "sample_weight")
    weights = np.asarray(weights[rows])
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"sample_weight[{rows[row]}] = {weights[row]}, expected a finite number "
            f"from 0; a {kind.one} of weight 0 is left out"
        )
    if (weights > 0).sum() < least:
        raise InputError(
            f"sample_weight: {int((weights > 0).sum())} of {len(rows)} weights are "
            f"non-zero, expected at least {least}; raise some"
        )
    return None if (weights == weights[0]).all() else weights


def class_weights(given: Any, numbers: Array, classes: Array) -> Array | None:
    """Returns each series' weight by its class, float64 [n]; None if all are equal.

    Args:
        given: ``"balanced"``: n / (number of classes · number of series of the class),
            so that all classes have the same weight; or a dict of weights by label, 1
            for labels it lacks.
        numbers: class of each series [n].
        classes: the labels.

    Raises:
        ConfigError: ``given`` is neither, has a weight below 0 or an unknown label.
    """
    if given is None:
        return None
    where = "TimeSeriesClassifier: class_weight"
    if isinstance(given, str) and given == "balanced":
        counts = np.bincount(numbers, minlength=len(classes))
        there = int((counts > 0).sum())
        each = len(numbers) / (there * np.maximum(counts, 1))
    elif isinstance(given, Mapping):
        known = {label: number for number, label in enumerate(classes.tolist())}
        each = np.ones(len(classes))
        for label, weight in given.items():
            plain = label.item() if isinstance(label, np.generic) else label
            if plain not in known:
                raise ConfigError(
                    f"{where} has the label {label!r}, expected labels of y: "
                    f"{', '.join(map(repr, known))}; leave it out or correct it"
                )
            try:
                each[known[plain]] = weight
            except (TypeError, ValueError):
                raise ConfigError(
                    f"{where} has {weight!r} for the label {label!r}, expected a "
                    "number above 0; correct it"
                ) from None
    else:
        raise ConfigError(
            f"{where}={given!r}, expected 'balanced', a dict such as "
            f"{{{classes.tolist()[0]!r}: 2.0}}, or None"
        )
    if not (np.isfinite(each).all() and (each > 0).all()):
        raise ConfigError(
            f"{where}={given!r}, expected finite weights above 0; leave out the series "
            "of a class that shall not count"
        )
    weights: Array = each[numbers]
    return None if (weights == weights[0]).all() else weights


class WeightedRows(SeriesRows):
    """Series with weights; batches hold the weights as ``row_weights`` [B].

    Args:
        rows: the series.
        weights: [n], scaled here to mean 1.
    """

    def __init__(self, rows: SeriesRows, weights: Array) -> None:
        super().__init__(rows.values, rows.offsets, rows.labels)
        self.weights = (weights / weights.mean()).astype(np.float32)

    def gather(self, indices: Any) -> Batch:
        """Returns the packed batch of these series with their weights."""
        batch = super().gather(indices)
        weights = self.weights[batch["row_ids"]]
        return Batch({**batch, "row_weights": weights}, self.tokens)


class WeightedModel:
    """A model whose loss weighs the series of a batch.

        loss = 1/B · sum over the B series of w · (the loss of the series)

    The weights have mean 1 over the data set. So the mean over all batches is the
    weighted mean over all series, and the other series of a batch do not bias its
    gradient.

    Args:
        model: a classifier or a regressor; everything except the call is delegated to
            it.
    """

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(
        self, *, row_weights: Array | None = None, labels: Any = None, **inputs: Any
    ) -> Any:
        """Run the model; ``labels`` and ``row_weights`` give the weighted loss."""
        if row_weights is None or labels is None:
            return self._model(labels=labels, **inputs)
        out = self._model(**inputs)
        losses = _losses(out.logits, np.asarray(labels))
        weights = Tensor(np.asarray(row_weights, np.float32)).to(out.logits.device)
        out.loss = F.mean(F.mul(losses, weights))
        return out


def _losses(logits: Tensor, labels: Array) -> Tensor:
    """Returns the loss of each series [B]: cross entropy, or squared error."""
    if labels.dtype.kind == "f":
        values = Tensor(labels.reshape(len(labels), -1).astype(np.float32))
        error = F.sub(logits, values.to(logits.device))
        return F.mean(F.mul(error, error), axis=1)
    hot = np.eye(logits.shape[1], dtype=np.float32)[labels]
    highest = F.max(logits.detach(), axis=1, keepdims=True)
    shifted = F.sub(logits, highest)
    # -log softmax of the label's logit; subtracting the maximum keeps exp() in range
    own = F.sum(F.mul(shifted, Tensor(hot).to(logits.device)), axis=1)
    return F.sub(F.log(F.sum(F.exp(shifted), axis=1)), own)
