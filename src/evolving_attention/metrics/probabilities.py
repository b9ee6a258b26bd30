"""Class probabilities from logits."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evolving_attention.errors import NonFiniteError

Array = np.ndarray


def probabilities(logits: ArrayLike, problem_type: str | None = None) -> Array:
    """Returns probabilities in float64, with the shape of the logits.

        softmax(x)[c] = exp(x[c]) / sum over classes k of exp(x[k])
        sigmoid(x)[c] = 1 / (1 + exp(-x[c]))

    Args:
        logits: [N, classes].
        problem_type: ``"multi_label_classification"`` applies the sigmoid, so each
            class is independent; otherwise the softmax is applied.

    Raises:
        NonFiniteError: a logit is NaN or infinite.
    """
    x = finite_rows(logits)
    if problem_type == "multi_label_classification":
        # exp never overflows: its argument is never above 0
        small = np.exp(-np.abs(x))
        return np.asarray(np.where(x >= 0, 1.0, small) / (1.0 + small))
    return softmax(x)


def softmax(logits: Array) -> Array:
    """Returns the softmax over the last axis, in float64; NaN stays NaN."""
    x = np.asarray(logits, dtype=np.float64)
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def finite_rows(values: ArrayLike) -> Array:
    """Returns the predictions in float64.

    Raises:
        NonFiniteError: a row contains NaN or infinity; its report lists these rows.
    """
    x = np.asarray(values, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(x).all(axis=tuple(range(1, x.ndim))))
    if len(bad):
        raise NonFiniteError(
            f"predictions of {len(bad)} rows are not finite, first row {bad[0]}: the "
            "training may have diverged; look at its log",
            {"rows": bad.tolist()},
        )
    return x
