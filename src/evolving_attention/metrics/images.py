"""Scores of classifiers: top-1, top-5 and the confusion matrix."""

from __future__ import annotations

from typing import Any

import numpy as np

from evolving_attention.errors import InputError, ShapeError
from evolving_attention.metrics.probabilities import finite_rows

Array = np.ndarray[Any, Any]


def top_k(scores: Any, labels: Any, k: int = 5) -> float:
    """Returns the share of rows whose class is among the ``k`` highest scores.

    If scores are equal, the class with the lower number comes first.

    Args:
        scores: [n, classes], logits or probabilities.
        labels: classes, integers [n].
        k: from 1; if there are fewer classes than k, the share is 1.

    Raises:
        ShapeError: there is not one label for each row of scores.
        NonFiniteError: a score is NaN or infinite.
        InputError: a label is not the number of a class.

    Example:
        >>> from evolving_attention.metrics import top_k
        >>> top_k([[0.1, 0.7, 0.2], [0.5, 0.2, 0.3]], [2, 0], k=2)
        1.0
    """
    scores, labels = np.asarray(scores), np.asarray(labels)
    if scores.ndim != 2 or labels.shape != scores.shape[:1]:
        raise ShapeError(
            f"top_k: scores of shape {scores.shape} with labels of shape "
            f"{labels.shape}, expected [n, classes] and [n]"
        )
    scores = finite_rows(scores)
    labels = _numbers(labels, scores.shape[1], "top_k: labels")
    own = np.take_along_axis(scores, labels[:, None], axis=1)
    earlier = np.arange(scores.shape[1]) < labels[:, None]
    better = (scores > own) | ((scores == own) & earlier)
    return float((better.sum(axis=1) < k).mean())


def confusion_matrix(predicted: Any, labels: Any, classes: int) -> Array:
    """Counts predicted classes per true class: int64 [classes, classes].

    Args:
        predicted: predicted classes, integers [n].
        labels: true classes, integers [n]: the rows of the matrix.
        classes: number of classes.

    Raises:
        ShapeError: there is not one label for each prediction.
        InputError: a label or a prediction is not the number of a class.

    Example:
        >>> from evolving_attention.metrics import confusion_matrix
        >>> confusion_matrix([0, 1, 1], [0, 0, 1], classes=2).tolist()
        [[1, 1], [0, 1]]
    """
    predicted, labels = np.asarray(predicted), np.asarray(labels)
    if predicted.shape != labels.shape or labels.ndim != 1:
        raise ShapeError(
            f"confusion_matrix: predictions of shape {predicted.shape} with labels of "
            f"shape {labels.shape}, expected [n] and [n]"
        )
    predicted = _numbers(predicted, classes, "confusion_matrix: predictions")
    labels = _numbers(labels, classes, "confusion_matrix: labels")
    found = np.zeros((classes, classes), np.int64)
    np.add.at(found, (labels, predicted), 1)
    return found


def _numbers(given: Array, classes: int, what: str) -> Array:
    """Returns class numbers as int64; an empty array may have any dtype.

    Raises:
        InputError: one is not an integer from 0 to ``classes`` - 1.
    """
    if len(given) and given.dtype.kind not in "iu":
        raise InputError(f"{what} of dtype {given.dtype}, expected integers")
    wrong = np.flatnonzero((given < 0) | (given >= classes))
    if len(wrong):
        raise InputError(
            f"{what}[{wrong[0]}] = {given[wrong[0]]}, expected a class from 0 to "
            f"{classes - 1}; leave out the rows without one"
        )
    return given.astype(np.int64)
