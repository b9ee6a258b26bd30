"""Metrics that compare models over data sets or over seeds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from evolving_attention.errors import ConfigError, InputError, ShapeError, require


def average_rank(
    scores: Any, *, higher_is_better: bool | None = None
) -> np.ndarray[Any, Any]:
    """Returns the mean rank of every model over the data sets; 1 is the best.

    Equal scores get the mean of their ranks.

    Args:
        scores: [N data sets, M models], finite.
        higher_is_better: True for accuracies, False for errors.

    Returns:
        float64 [M], in 1 to M.

    Raises:
        ConfigError: ``higher_is_better`` is missing.
        InputError, ShapeError: the scores are not a finite table.

    Source: convolution-enhanced evolving attention networks, tables 1 and 2.
    """
    if not isinstance(higher_is_better, (bool, np.bool_)):
        raise ConfigError(
            f"average_rank: higher_is_better={higher_is_better!r}, expected True for "
            "accuracies or False for errors; say which"
        )
    table = _table("average_rank", scores)
    stats = require("scipy.stats", extra="timeseries", why="to rank models")
    ranks = stats.rankdata(-table if higher_is_better else table, axis=1)
    mean: np.ndarray[Any, Any] = np.asarray(ranks, dtype=np.float64).mean(axis=0)
    return mean


def average_relative_difference(errors: Any) -> np.ndarray[Any, Any]:
    """Returns the mean relative difference of each model's error from the models' mean:

        r_j = 1/N Σᵢ (r_ij − R̄ᵢ) / R̄ᵢ,   R̄ᵢ = 1/M Σₖ r_ik

    Args:
        errors: r_ij [N data sets, M models], for example RMSE; the mean of every row
            must be positive.

    Returns:
        float64 [M]; a value below 0 is better than the mean of the compared models;
        −0.2 means 20 % less error. The values sum to 0.

    Raises:
        InputError, ShapeError: the errors are not a finite table, or a row's mean is
            not positive.

    Source: convolution-enhanced evolving attention networks, Eq. 12.
    """
    table = _table("average_relative_difference", errors)
    mean = table.mean(axis=1, keepdims=True)
    if not (mean > 0).all():
        row = int(np.argmin(mean[:, 0] > 0))
        raise InputError(
            f"average_relative_difference: the mean of errors[{row}] is "
            f"{mean[row, 0]:g}, expected it above 0; leave that data set out"
        )
    return np.asarray(((table - mean) / mean).mean(axis=0))


class PairedDifference(NamedTuple):
    """The mean of differences between pairs, and its interval.

    Attributes:
        mean: mean of the differences.
        sd: their standard deviation; None for one pair.
        low, high: Student's interval of the mean; None for one pair.
        pairs: number of pairs.
    """

    mean: float
    sd: float | None
    low: float | None
    high: float | None
    pairs: int


def paired_difference(
    first: Any, second: Any, *, confidence: float = 0.95
) -> PairedDifference:
    """Returns the mean difference of paired scores, such as scores of equal seeds:

        d̄ ± t(n − 1) · s / √n,   dᵢ = firstᵢ − secondᵢ

    Args:
        first, second: [n] scores, finite; equal positions form a pair.
        confidence: confidence level of Student's interval, between 0 and 1.

    Raises:
        ConfigError: ``confidence`` is out of range.
        InputError, ShapeError: the scores are not finite pairs.
        MissingExtraError: SciPy is not installed, and there are two pairs or more.

    Example:
        >>> found = paired_difference([0.5, 0.7, 0.6], [0.4, 0.5, 0.6])
        >>> round(found.mean, 3), round(found.low, 3), round(found.high, 3)
        (0.1, -0.148, 0.348)
    """
    if not 0 < confidence < 1:
        raise ConfigError(
            f"paired_difference: confidence={confidence}, expected a number between 0 "
            "and 1; 0.95 is usual"
        )
    sizes = np.shape(first), np.shape(second)
    if sizes[0] != sizes[1] or len(sizes[0]) != 1:
        raise ShapeError(
            f"paired_difference: the scores have the shapes {sizes[0]} and {sizes[1]}, "
            "expected [n] twice; give one score of each for every pair"
        )
    table = _table("paired_difference", np.array([first, second]))
    gains = table[0] - table[1]
    count, mean = len(gains), float(gains.mean())
    if count < 2:
        return PairedDifference(mean, None, None, None, count)
    stats = require("scipy.stats", extra="glue", why="for confidence intervals")
    sd = float(gains.std(ddof=1))
    half = float(stats.t.ppf((1 + confidence) / 2, count - 1)) * sd / count**0.5
    return PairedDifference(mean, sd, mean - half, mean + half, count)


def _table(name: str, values: Any) -> np.ndarray[Any, Any]:
    """Returns float64 [N, M]; checks that it is finite and neither axis is empty."""
    try:
        table = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ShapeError(
            f"{name}: the scores are no table of numbers, expected [data sets, models]"
            "; give every data set one number for each model"
        ) from None
    if table.ndim != 2 or 0 in table.shape:
        raise ShapeError(
            f"{name}: the scores have shape {table.shape}, expected [data sets, models]"
            ", neither empty; one data set is [[0.9, 0.8]]"
        )
    if not np.isfinite(table).all():
        row, column = np.argwhere(~np.isfinite(table))[0]
        raise InputError(
            f"{name}: scores[{row}, {column}] = {table[row, column]}, expected finite "
            "numbers; leave that data set or model out"
        )
    return table
