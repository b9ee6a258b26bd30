"""Metrics that compare models over data sets: average rank, relative difference."""

from __future__ import annotations

from typing import Any

import numpy as np

from evolving_attention.errors import ConfigError, InputError, ShapeError, require

__all__ = ["average_rank", "average_relative_difference"]


def average_rank(
    scores: Any, *, higher_is_better: bool | None = None
) -> np.ndarray[Any, Any]:
    """The mean rank of every model over the data sets, 1 for the best.

    Equal scores share the mean of their ranks.

    Args:
        scores: [N data sets, M models], finite.
        higher_is_better: True for accuracies, False for errors.

    Returns:
        float64 [M], in 1 to M.

    Raises:
        ConfigError: ``higher_is_better`` is missing.
        InputError, ShapeError: the scores are no finite table.

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
    """The mean relative difference of every model's error from the models' mean:

        r_j = 1/N Σᵢ (r_ij − R̄ᵢ) / R̄ᵢ,   R̄ᵢ = 1/M Σₖ r_ik

    Args:
        errors: r_ij [N data sets, M models], for example RMSE; above 0 on average in
            every row.

    Returns:
        float64 [M]; below 0 is better than the mean of the compared models, −0.2 is
        20 % less error. They sum to 0.

    Raises:
        InputError, ShapeError: the errors are no finite table, or a row's mean is not
            positive.

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


def _table(name: str, values: Any) -> np.ndarray[Any, Any]:
    """float64 [N, M], finite, neither axis empty."""
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
