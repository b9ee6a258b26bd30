"""Collections of time series: whatever form they come in, checked series by series.

A collection becomes a list of float64 arrays [channels, length], missing values NaN;
:class:`SeriesRows` is the packed form that models and the Trainer take.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from evolving_attention.data.collate import Batch
from evolving_attention.errors import DTypeError, InputError, ShapeError

__all__ = ["SeriesRows", "as_series", "given_lengths"]

Series = np.ndarray[Any, Any]
_FORMS = "[n, channels, length], [n, length], or a list of arrays [channels, length]"


def as_series(collection: Any, name: str = "X") -> list[Series]:
    """Every series of a collection as float64 [channels, length].

    Time steps at the end of a series at which every channel is NaN are padding, and are
    cut off; any other NaN stays, as a missing value.

    Args:
        collection: array [n, channels, length]; array or table [n, length] of series
            with one channel; or a list of arrays (or tables) [channels, length] or
            [length], which may differ in length.
        name: what messages call it.

    Raises:
        ShapeError: another number of axes, no series, an empty one, or series that
            differ in channels.
        DTypeError: something is not a real number.
        InputError: a value is infinite, or a series holds nothing but NaN.
    """
    if hasattr(collection, "toarray"):
        raise DTypeError(
            f"{name}: sparse input, expected a dense array {_FORMS}; convert it by "
            ".toarray()"
        )
    found = _split(collection, name)
    if not found:
        raise ShapeError(
            f"{name}: 0 series (0 sample(s)), expected at least one; check the path or "
            "the selection"
        )
    channels = found[0].shape[0]
    for i, one in enumerate(found):
        where = f"{name}[{i}]"
        if one.shape[0] != channels:
            raise ShapeError(
                f"{where}: {one.shape[0]} channels, expected {channels} as in "
                f"{name}[0]; a series is [channels, length], transpose it if time "
                "comes first"
            )
        found[i] = _checked(one, where)
    return found


def given_lengths(collection: Any) -> tuple[int, int | None]:
    """(longest series with its padding, length of all if it is one table [n, length]).

    Args:
        collection: one that :func:`as_series` takes.
    """
    if isinstance(collection, (list, tuple)) and any(map(_is_array, collection)):
        return max(int(np.shape(one)[-1]) for one in collection), None
    shape = np.asarray(collection).shape
    return int(shape[-1]), int(shape[1]) if len(shape) == 2 else None


def _split(collection: Any, name: str) -> list[Series]:
    """The series as float64 [channels, length], not looked into yet."""
    if isinstance(collection, (list, tuple)) and any(map(_is_array, collection)):
        return [_one(item, f"{name}[{i}]") for i, item in enumerate(collection)]
    array = _numbers(collection, name)
    if array.ndim < 2:
        raise ShapeError(
            f"{name}: shape {array.shape}, expected {_FORMS}. Reshape your data: one "
            f"series is {name}[np.newaxis, :]"
        )
    if array.ndim > 3:
        raise ShapeError(f"{name}: shape {array.shape}, expected {_FORMS}; reshape it")
    if 0 in array.shape[1:]:
        raise ShapeError(
            f"{name}: 0 feature(s) (shape={array.shape}) while a minimum of 1 is "
            f"required: series are empty, expected {_FORMS}; check how it was read"
        )
    return list(array if array.ndim == 3 else array[:, np.newaxis, :])


def _is_array(value: Any) -> bool:
    """Whether an item of a list is a series of its own rather than a row of numbers."""
    return hasattr(value, "shape") and len(value.shape) > 0


def _one(item: Any, where: str) -> Series:
    array = _numbers(item, where)
    if array.ndim == 1:
        array = array[np.newaxis, :]
    if array.ndim != 2 or 0 in array.shape:
        raise ShapeError(
            f"{where}: shape {np.shape(item)}, expected [channels, length] or [length]"
            ", not empty; leave an empty series out"
        )
    return array


def _numbers(value: Any, where: str) -> Series:
    """float64, or the reason why not."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        raise ShapeError(
            f"{where}: the rows differ in length or depth, expected {_FORMS}; make "
            "each series an array of its own"
        ) from error
    kind = array.dtype.kind
    if kind == "c":
        raise DTypeError(
            f"{where}: Complex data not supported ({array.dtype}), expected real "
            "numbers; give real and imaginary part as two channels"
        )
    if kind in "biuf":
        return np.asarray(array, dtype=np.float64)
    if kind == "O":
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise DTypeError(
                f"{where}: not all values are numbers ({error}), expected real "
                "numbers; leave other columns out, write missing values as NaN"
            ) from None
    raise DTypeError(
        f"{where}: element type {array.dtype}, expected real numbers; convert it by "
        ".astype(float)"
    )


def _checked(series: Series, where: str) -> Series:
    """Without padding at its end; refuses infinity and a series without any value."""
    finite = np.isfinite(series)
    if finite.all():
        return series
    infinite = np.isinf(series)
    if infinite.any():
        channel, step = np.argwhere(infinite)[0]
        raise InputError(
            f"{where}[{channel}, {step}] = {series[channel, step]} (channel, time): "
            "infinity, expected finite values; a missing value is NaN"
        )
    seen = np.flatnonzero(finite.any(axis=0))
    if not len(seen):
        raise InputError(
            f"{where}: every value is NaN, expected at least one; leave the series out"
        )
    return series[:, : seen[-1] + 1]


class SeriesRows(Sequence[dict[str, Any]]):
    """N series stored flat, a data set for the Trainer.

    Args:
        values: float32 [total, channels], the series one after another, time first.
        offsets: int64 [N + 1], where each begins.
        labels: int64 (classes) or float32 (values) [N], or None.

    As a sequence, row i is ``{"values": float32 [length, channels], "labels": …}``.
    """

    def __init__(
        self,
        values: np.ndarray[Any, Any],
        offsets: np.ndarray[Any, Any],
        labels: np.ndarray[Any, Any] | None = None,
    ) -> None:
        self.values = np.asarray(values, dtype=np.float32)
        self.offsets = np.asarray(offsets, dtype=np.int64)
        self.labels = labels
        total, rows = len(self.values), len(self.offsets) - 1
        if self.values.ndim != 2 or self.offsets[0] != 0 or self.offsets[-1] != total:
            raise ShapeError(
                f"SeriesRows: values of shape {self.values.shape} with offsets from "
                f"{self.offsets[0]} to {self.offsets[-1]}, expected [total, channels] "
                "and offsets from 0 to total"
            )
        if labels is not None and len(labels) != rows:
            raise ShapeError(
                f"SeriesRows: {len(labels)} labels for {rows} series, expected one each"
            )

    @property
    def lengths(self) -> np.ndarray[Any, Any]:
        """Time steps of each series: int64 [N]."""
        return np.diff(self.offsets)

    @property
    def channels(self) -> int:
        """Variables of each series."""
        return int(self.values.shape[1])

    def gather(self, indices: Any) -> Batch:
        """The packed batch of these series."""
        indices = np.asarray(indices, dtype=np.int64)
        spans = zip(self.offsets[indices], self.offsets[indices + 1], strict=True)
        parts = [self.values[begin:end] for begin, end in spans]
        offsets = np.zeros(len(indices) + 1, dtype=np.int64)
        np.cumsum([len(part) for part in parts], out=offsets[1:])
        batch = {
            "values": np.concatenate(parts),
            "sequence_offsets": offsets,
            "row_ids": indices,
        }
        if self.labels is not None:
            batch["labels"] = self.labels[indices]
        return batch

    def take(self, indices: Any) -> SeriesRows:
        """These series as a data set of their own."""
        part = self.gather(indices)
        return SeriesRows(part["values"], part["sequence_offsets"], part.get("labels"))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"series {position} of {len(self)}")
        position %= len(self)
        row = {
            "values": self.values[self.offsets[position] : self.offsets[position + 1]]
        }
        if self.labels is not None:
            row["labels"] = self.labels[position].item()
        return row

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[index] for index in range(len(self)))
