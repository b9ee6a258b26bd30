"""Fits series to the length that a model accepts: truncated, or resampled."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from evolving_attention.errors import InputError

Array = np.ndarray[Any, Any]
LONGER = ("error", "cut", "resample")
_LOGGER = logging.getLogger("evolving_attention")


def shortened(
    series: Sequence[Array], limit: int, longer: str, missing: str, name: str = "X"
) -> list[Array]:
    """Shortens series [channels, length] that have more than ``limit`` time steps.

    Args:
        series: arrays with NaN for missing values.
        limit: the longest length to keep.
        longer: ``"cut"`` keeps the first ``limit`` steps; ``"resample"`` interpolates
            the series at ``limit`` evenly spaced times from its first to its last step,
            linearly between known values; ``"error"`` changes nothing.
        missing: the estimator's option. With ``"refuse"`` a series with a gap is not
            resampled, because that would fill the gap.
        name: name of the collection in messages.

    Raises:
        InputError: a series with a gap would be resampled with ``missing="refuse"``, or
            a series has no value in the kept steps.
    """
    series = list(series)
    above = [i for i, one in enumerate(series) if one.shape[1] > limit]
    if longer == "error" or not above:
        return series
    for i in above:
        where = f"{name}[{i}]"
        if longer == "resample":
            if missing == "refuse" and np.isnan(series[i]).any():
                channel, step = np.argwhere(np.isnan(series[i]))[0]
                raise InputError(
                    f"{where}[{channel}, {step}] (channel, time) is NaN, expected a "
                    "value; fill it, or set missing='interpolate'"
                )
            series[i] = _resampled(series[i], limit)
            continue
        cut = series[i][:, :limit]
        if np.isnan(cut).all():
            raise InputError(
                f"{where}: every value of its first {limit} time steps is NaN, "
                "expected at least one; use longer='resample' or leave the series out"
            )
        series[i] = cut
    _LOGGER.info(
        "%s: %d of %d series were longer than %d time steps and %s",
        name,
        len(above),
        len(series),
        limit,
        "cut" if longer == "cut" else "resampled",
    )
    return series


def _resampled(series: Array, count: int) -> Array:
    """Interpolates a series [channels, length] at ``count`` evenly spaced times."""
    time = np.arange(series.shape[1])
    wanted = np.linspace(0, time[-1], count)
    found = np.full((len(series), count), np.nan)
    for channel, values in enumerate(series):
        known = ~np.isnan(values)
        if known.any():
            found[channel] = np.interp(wanted, time[known], values[known])
    return found
