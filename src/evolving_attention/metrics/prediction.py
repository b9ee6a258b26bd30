"""The input of a metric: predictions and true labels, checked."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evolving_attention.data.collate import IGNORED
from evolving_attention.errors import InputError, NonFiniteError, ShapeError


class EvalPrediction(NamedTuple):
    """Model outputs and labels of an evaluation set.

    Attributes:
        predictions: logits [N, classes], or for regression [N] or [N, 1]; if a model
            has a tuple of outputs, the first one is used.
        label_ids: true labels [N].
    """

    predictions: Any
    label_ids: Any


def _checked(prediction: EvalPrediction) -> tuple[np.ndarray, np.ndarray]:
    outputs = prediction.predictions
    outputs = np.asarray(outputs[0] if isinstance(outputs, tuple) else outputs)
    labels = np.asarray(prediction.label_ids)
    if labels.ndim != 1 or outputs.ndim < 1 or len(outputs) != len(labels):
        raise ShapeError(
            f"predictions have shape {outputs.shape} and labels {labels.shape}; "
            "expected [N, classes] or [N], and [N]"
        )
    if not len(labels):
        raise ShapeError("no rows to evaluate; expected at least one")
    if outputs.dtype.kind not in "iub":
        outputs = outputs.astype(np.float64)
        flat = np.isfinite(outputs.reshape(len(outputs), -1)).all(axis=1)
        if not flat.all():
            bad = np.flatnonzero(~flat)
            raise NonFiniteError(
                f"predictions of {len(bad)} rows are not finite, the first is row "
                f"{bad[0]}; no metric is computed from them",
                {"rows": bad.tolist()},
            )
    return outputs, labels


def class_predictions(prediction: EvalPrediction) -> tuple[np.ndarray, np.ndarray]:
    """Returns (predicted class, true class), int64 [N]; logits give their argmax.

    Rows and tokens of the class -100 are left out, as the loss leaves them out.

    Raises:
        InputError: all are of the class -100.
    """
    outputs, labels = _checked(prediction)
    if outputs.ndim > 1:
        outputs = outputs.argmax(axis=1)
    kept = labels != IGNORED
    if not kept.any():
        raise InputError(
            f"all {len(labels)} labels are {IGNORED}, no class, expected at least one "
            "class; evaluate rows that have one, or leave compute_metrics out"
        )
    return outputs[kept].astype(np.int64), labels[kept].astype(np.int64)


def score_predictions(prediction: EvalPrediction) -> tuple[np.ndarray, np.ndarray]:
    """Returns (predicted score, true score), both float64 [N]."""
    outputs, labels = _checked(prediction)
    if outputs.ndim > 2 or (outputs.ndim == 2 and outputs.shape[1] != 1):
        raise ShapeError(
            f"predictions have shape {outputs.shape}; a regression task expects [N] or "
            "[N, 1] (is num_labels 1?)"
        )
    return outputs.reshape(-1).astype(np.float64), labels.astype(np.float64)
