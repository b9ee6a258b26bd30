"""How tightly the representations of each class are grouped."""

from __future__ import annotations

from typing import Any

import numpy as np

from evolving_attention.device_names import host_array
from evolving_attention.errors import InputError, ShapeError


def within_class_distance(X: Any, y: Any, *, relative: bool = False) -> float:
    """Returns the mean distance of representations from the centre of their class:

        AvgWCD = 1/N Σᵢ Σ_(q in class i) ‖q − mᵢ‖,   mᵢ = mean of class i

    Smaller is better, but the value has the scale of the representations: dividing them
    by two halves it. With ``relative`` it is divided by the same mean without classes,
    1/N Σ_q ‖q − m‖, where m is the mean of all: near 1 if the classes do not differ, 0
    if each is a point. So compare models by the relative value, on data that they were
    not fitted to.

    Args:
        X: representations [N, size], for example ``model.embed(series)`` of an
            estimator or a base model's ``pooler_output``.
        y: classes [N], of any type that sorts.
        relative: divide by the mean distance from the centre of all.

    Raises:
        ShapeError: X or y has another shape.
        InputError: a representation is not finite; with ``relative``, all are equal.

    Example:
        >>> X = [[0.0, 0.0], [2.0, 0.0], [0.0, 8.0], [2.0, 8.0]]
        >>> within_class_distance(X, ["a", "a", "b", "b"])
        1.0
        >>> round(within_class_distance(X, ["a", "a", "b", "b"], relative=True), 3)
        0.243

    Source: convolution-enhanced evolving attention networks, Eq. 13; ``relative`` is
    ours.
    """
    X = np.asarray(host_array(X), dtype=np.float64)
    y = np.asarray(host_array(y))
    if X.ndim != 2 or 0 in X.shape or y.shape != X.shape[:1]:
        raise ShapeError(
            f"within_class_distance: X has shape {X.shape} and y {y.shape}, expected "
            "[N, size] and [N], not empty: one class for each representation"
        )
    if not np.isfinite(X).all():
        row = int(np.argmin(np.isfinite(X).all(axis=1)))
        raise InputError(
            f"within_class_distance: X[{row}] has NaN or infinity, expected finite "
            "representations; the training may have diverged"
        )
    _, classes = np.unique(y, return_inverse=True)
    distance = _from_centres(X, classes)
    if not relative:
        return distance
    if (X[0] == X).all():
        raise InputError(
            "within_class_distance: all representations are equal, expected some "
            "distance to divide by; leave out relative=True"
        )
    return distance / _from_centres(X, np.zeros(len(X), np.int64))


def _from_centres(X: Any, classes: Any) -> float:
    """Returns the mean distance of the rows from the mean of their class."""
    sums = np.zeros((int(classes.max()) + 1, X.shape[1]))
    np.add.at(sums, classes, X)
    centres = sums / np.bincount(classes)[:, None]
    return float(np.linalg.norm(X - centres[classes], axis=1).mean())
