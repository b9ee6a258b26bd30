"""Prepares series for a model: fills missing values and scales channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from evolving_attention.data.series import SeriesRows
from evolving_attention.errors import ConfigError, InputError

Array = np.ndarray[Any, Any]
MISSING = ("interpolate", "refuse")
SCALES = ("channel", "series", "none")
_TINY = 1e-12  # a deviation below this share of the mean is a rounding error


class SeriesScaler:
    """Fills missing values and scales every channel to mean 0 and deviation 1.

    For each channel, with m and s over all known values of the training series:

        x ← (x − m) / s      (s = 1 for a constant channel)

    Missing values (NaN) are interpolated linearly in time; before the first and after
    the last known value, that value is used. A channel that has no value in a series
    becomes 0, the training mean.

    Args:
        scale: ``"channel"``: m and s of the training set, per channel; ``"series"``: m
            and s of each series, per channel; ``"none"``: values stay unchanged.
        missing: ``"interpolate"``, as above, or ``"refuse"``: NaN is an error.

    Raises:
        ConfigError: an unknown value.
    """

    def __init__(self, scale: str = "channel", missing: str = "interpolate") -> None:
        for option, value, allowed in (
            ("scale", scale, SCALES),
            ("missing", missing, MISSING),
        ):
            if value not in allowed:
                raise ConfigError(
                    f"{option}={value!r}, expected one of {', '.join(allowed)}; choose "
                    "one of them"
                )
        self.scale, self.missing = scale, missing
        self.mean: Array | None = None
        self.deviation: Array | None = None

    def fit(self, collection: Sequence[Array], name: str = "X") -> SeriesScaler:
        """Computes m and s from training series [channels, length].

        Raises:
            InputError: a channel has no value in any series, or values whose deviation
                exceeds float64; or NaN is refused.
        """
        self.refuse_missing(collection, name)
        every = np.concatenate([one.T for one in collection])
        there = ~np.isnan(every)
        count = there.sum(axis=0)
        if not count.all():
            raise InputError(
                f"{name}: channel {int(np.argmin(count > 0))} is missing (NaN) in "
                "every series, expected at least one value; leave the channel out"
            )
        known = np.where(there, every, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            self.mean = known.sum(axis=0) / count
            spread = np.where(there, every - self.mean, 0.0)
            deviation = np.sqrt((spread**2).sum(axis=0) / count)
        if not np.isfinite(deviation).all():
            channel = int(np.argmin(np.isfinite(deviation)))
            raise InputError(
                f"{name}: channel {channel} has values up to "
                f"{np.abs(known[:, channel]).max():.3g}, expected a deviation within "
                "float64; correct or clip them"
            )
        self.deviation = _without_zeros(deviation, self.mean)
        return self

    def transform(
        self,
        collection: Sequence[Array],
        labels: Array | None = None,
        name: str = "X",
    ) -> SeriesRows:
        """Returns the series as a packed data set of scaled values, without gaps.

        Raises:
            InputError: NaN where it is refused, or a scaled value exceeds float32.
        """
        self.refuse_missing(collection, name)
        offsets = np.cumsum([0, *(one.shape[1] for one in collection)])
        parts = [self._scaled(one) for one in collection]
        with np.errstate(over="ignore"):
            values = np.concatenate(parts).astype(np.float32)
        if not np.isfinite(values).all():
            step, channel = np.argwhere(~np.isfinite(values))[0]
            row = int(np.searchsorted(offsets, step, side="right")) - 1
            raise InputError(
                f"{name}[{row}][{channel}, {step - offsets[row]}] (channel, time) is "
                f"{parts[row][step - offsets[row], channel]:.3g} after scaling, "
                "expected the range of float32; correct or clip it"
            )
        return SeriesRows(values, offsets, labels)

    def _scaled(self, series: Array) -> Array:
        """Returns one series as [length, channels], scaled and filled."""
        values = series.T
        there = ~np.isnan(values)
        mean, deviation = self.mean, self.deviation
        if mean is None or deviation is None:
            raise ConfigError("SeriesScaler: transform before fit; call fit first")
        if self.scale == "series":
            count = np.maximum(there.sum(axis=0), 1)
            mean = np.where(there, values, 0.0).sum(axis=0) / count
            spread = np.where(there, values - mean, 0.0)
            deviation = _without_zeros(np.sqrt((spread**2).sum(axis=0) / count), mean)
        scaled = values if self.scale == "none" else (values - mean) / deviation
        if there.all():
            return np.asarray(scaled)
        lacking = mean if self.scale == "none" else np.zeros(len(mean))
        return fill_missing(scaled, lacking)

    def refuse_missing(self, collection: Sequence[Array], name: str) -> None:
        if self.missing != "refuse":
            return
        for i, one in enumerate(collection):
            gaps = np.isnan(one)
            if gaps.any():
                channel, step = np.argwhere(gaps)[0]
                raise InputError(
                    f"{name}[{i}][{channel}, {step}] (channel, time) is NaN, expected a"
                    " value; fill it, or set missing='interpolate'"
                )

    def to_dict(self) -> dict[str, Any]:
        """Returns options and fitted values, as plain values."""
        return {
            "scale": self.scale,
            "missing": self.missing,
            "mean": None if self.mean is None else self.mean.tolist(),
            "deviation": None if self.deviation is None else self.deviation.tolist(),
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> SeriesScaler:
        """Builds a scaler from the result of :meth:`to_dict`.

        Raises:
            ConfigError: the values are not those of a scaler.
        """
        scaler = cls(values["scale"], values["missing"])
        if values["mean"] is None:
            return scaler
        mean, deviation = (
            np.asarray(values[name], dtype=np.float64) for name in ("mean", "deviation")
        )
        if mean.ndim != 1 or not np.isfinite(mean).all():
            raise ConfigError(
                f"SeriesScaler: mean is {values['mean']!r:.80}, expected a finite "
                "number for each channel; take them from a fitted scaler"
            )
        usable = (deviation > 0) & np.isfinite(deviation)
        if deviation.shape != mean.shape or not usable.all():
            raise ConfigError(
                f"SeriesScaler: deviation is {values['deviation']!r:.80}, expected "
                f"{len(mean)} finite numbers above 0, as many as means; take them from "
                "a fitted scaler"
            )
        scaler.mean, scaler.deviation = mean, deviation
        return scaler


def _without_zeros(deviation: Array, mean: Array) -> Array:
    """Returns deviations; 1 for a channel that is constant up to rounding."""
    return np.where(is_constant(deviation, mean), 1.0, deviation)


def is_constant(deviation: Any, mean: Any) -> Any:
    """Returns whether values with this deviation are equal up to rounding."""
    return deviation <= _TINY * np.abs(mean)


def fill_missing(values: Array, lacking: Array) -> Array:
    """Fill NaN in [length, channels] along time; ``lacking`` [channels] if all are NaN.

    Interpolates linearly between known values, and uses the first or last known value
    at the ends.
    """
    filled = np.array(values, dtype=np.float64)
    time = np.arange(len(filled))
    for channel in np.flatnonzero(np.isnan(filled).any(axis=0)):
        column = filled[:, channel]
        known = ~np.isnan(column)
        if known.any():
            column[~known] = np.interp(time[~known], time[known], column[known])
        else:
            column[:] = lacking[channel]
    return filled
