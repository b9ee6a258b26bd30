"""Collections of time series in any accepted form, checked one by one.

A collection becomes a list of float64 arrays [channels, length] with NaN for missing
values; :class:`SeriesRows` is the packed form that models and the Trainer accept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from evolving_attention.data.packed import Batch, PackedRows
from evolving_attention.data.series_axes import (
    frames_axis,
    frames_channels,
    is_frame,
    names_of,
    refuse_disorder,
    refuse_long,
    refuse_nested,
    series_of_index,
)
from evolving_attention.data.series_parts import SeriesPart
from evolving_attention.errors import DTypeError, InputError, ShapeError

Series = np.ndarray[Any, Any]
_FORMS = "[n, channels, length], [n, length], or a list of arrays [channels, length]"


@dataclass(frozen=True)
class Reading:
    """A collection, and how it was read.

    Attributes:
        series: float64 [channels, length] each.
        longest: time steps of the longest series, including its padding.
        table: length of all series, if they came as one table [n, length].
        time_axis: the axis read as time, where axis 0 counts the series: 1 or 2; None
            if a series has only one axis.
        frames: whether the series are DataFrames.
        doubt: a reason to doubt this reading; None: no reason.
        names: names of the channels; None: no names, as in arrays.
        steps: names of the time steps in a table [n, length]; None: no names.
        ids: labels of the series, where the collection has them; None: it has none.
    """

    series: list[Series]
    longest: int
    table: int | None = None
    time_axis: int | None = None
    frames: bool = False
    doubt: str | None = None
    names: tuple[str, ...] | None = None
    steps: tuple[str, ...] | None = None
    ids: tuple[Any, ...] | None = None

    def __str__(self) -> str:
        """Describes the reading in one line."""
        lengths = {one.shape[1] for one in self.series}
        steps = (
            f"{min(lengths)} to {max(lengths)}" if len(lengths) > 1 else lengths.pop()
        )
        axis = ""
        if self.time_axis is not None:
            where = " (rows)" if self.time_axis == 1 else " (columns)"
            axis = f"; axis {self.time_axis}{where if self.frames else ''} is time"
        return (
            f"{len(self.series)} series, {self.series[0].shape[0]} channels, {steps} "
            f"time steps{axis}"
        )


def as_series(
    collection: Any, name: str = "X", time_axis: int | None = None
) -> list[Series]:
    """Returns each series as float64 [channels, length]; see :func:`read`."""
    return read(collection, name, time_axis).series


def read(
    collection: Any,
    name: str = "X",
    time_axis: int | None = None,
    earlier: tuple[bool, int | None] | None = None,
) -> Reading:
    """Reads every series of a collection as float64 [channels, length].

    Time steps at the end of a series where every channel is NaN are padding and are
    removed; any other NaN is kept as a missing value.

    Args:
        collection: array [n, channels, length]; array or table [n, length] of series
            with one channel; a list of arrays [channels, length] or [length], which may
            differ in length; a list of DataFrames, whose time axis
            :func:`.series_axes.frames_axis` finds; a table with the index (series,
            time) and the channels as columns; or a SeriesPart.
        name: name of the collection in messages.
        time_axis: the time axis of arrays and frames with two axes, where axis 0 counts
            the series: 1 for [n, length, channels], 2 for [n, channels, length]. None:
            2 for arrays; from the labels for frames.
        earlier: (frames, time_axis) of an earlier reading, applied to the same form.

    Raises:
        ShapeError: wrong number of axes, no series, an empty series, series with
            different channels, or a long table.
        DTypeError: a value is not a real number.
        InputError: a value is infinite, a series contains only NaN, a time step occurs
            twice, numbered time steps are in the order of text (t1, t10, t2), or frames
            have different channel names.
    """
    if isinstance(collection, SeriesPart):
        found = read(collection.X, name, time_axis, earlier)
        return replace(
            found,
            names=collection.channel_names,
            steps=collection.step_names,
            ids=collection.ids,
        )
    if hasattr(collection, "toarray"):
        raise DTypeError(
            f"{name}: sparse input, expected a dense array {_FORMS}; convert it by "
            ".toarray()"
        )
    found = _split(collection, name, time_axis, earlier)
    series = found.series
    if not series:
        raise ShapeError(
            f"{name}: 0 series (0 sample(s)), expected at least one; check the path or "
            "the selection"
        )
    channels = series[0].shape[0]
    for i, one in enumerate(series):
        where = f"{name}[{i}]"
        if one.shape[0] != channels:
            raise ShapeError(
                f"{where}: {one.shape[0]} channels, expected {channels} as in "
                f"{name}[0]; a series is [channels, length], transpose it if time "
                f"comes first, or say time_axis={3 - (found.time_axis or 2)}"
            )
        series[i] = _checked(one, where)
    return found


def _split(
    collection: Any,
    name: str,
    time_axis: int | None,
    earlier: tuple[bool, int | None] | None,
) -> Reading:
    """Returns the series as float64 [channels, length], with unchecked values."""
    if getattr(getattr(collection, "index", None), "nlevels", 1) > 1:
        parts, ids, doubt = series_of_index(collection, name)
        series = [_one(part, f"{name}[{i}]") for i, part in enumerate(parts)]
        longest = max((x.shape[1] for x in series), default=0)
        names = names_of(getattr(collection, "columns", [None]))
        return Reading(series, longest, doubt=doubt, names=names, ids=ids)
    if isinstance(collection, (list, tuple)) and any(map(_is_array, collection)):
        return _of_list(collection, name, time_axis, earlier)
    refuse_nested(collection, name)
    rows = steps = None
    if is_frame(collection):
        refuse_long(collection, name)
        refuse_disorder(collection.columns, f"{name}: columns")
        rows, steps = names_of(collection.index), names_of(collection.columns)
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
    if array.ndim == 2:
        refuse_long(array, name)
        length, series = array.shape[1], list(array[:, np.newaxis, :])
        return Reading(series, length, length, steps=steps, ids=rows)
    return _along_time(list(array), time_axis, time_axis is None and not earlier)


def _of_list(
    items: Sequence[Any],
    name: str,
    time_axis: int | None,
    earlier: tuple[bool, int | None] | None,
) -> Reading:
    """Reads a list of arrays or frames, one per series."""
    arrays = [_one(item, f"{name}[{i}]") for i, item in enumerate(items)]
    framed = [is_frame(item) for item in items]
    if any(framed) and not all(framed):
        raise ShapeError(
            f"{name}: DataFrames and arrays in one list, expected one of them: their "
            "time lies on different axes; convert them alike"
        )
    if all(np.ndim(item) == 1 for item in items):
        return Reading(arrays, max(one.shape[1] for one in arrays))
    known = time_axis is not None
    if not known and earlier and earlier[0] == framed[0]:
        time_axis, known = earlier[1], True
    if framed[0] and time_axis is None:
        time_axis, known = frames_axis(items)
    found = _along_time(arrays, time_axis, not known, framed[0])
    if not framed[0]:
        return found
    for i, frame in enumerate(items):
        refuse_disorder(frame.axes[(found.time_axis or 2) - 1], f"{name}[{i}]")
    return replace(found, names=frames_channels(items, found.time_axis or 2, name))


def _along_time(
    arrays: list[Series], time_axis: int | None, doubtful: bool, frames: bool = False
) -> Reading:
    """Moves time to the second of two axes; notes whether that is plausible."""
    axis = time_axis or 2
    series = [one.T for one in arrays] if axis == 1 else arrays
    channels = series[0].shape[0] if series else 0
    longest = max((one.shape[1] for one in series), default=0)
    doubt = None
    if doubtful and channels > longest:
        question = "is time first" if axis == 2 else "is time last"
        doubt = (
            f"X has {channels} channels and {longest} time steps: {question}? "
            f"time_axis={3 - axis}"
        )
    elif doubtful and frames and (axis == 2 or channels == longest):
        doubt = (
            "The DataFrames' labels do not say which axis is time; time_axis=1 says "
            "that it is the rows, time_axis=2 the columns"
        )
    return Reading(series, longest, None, axis, frames, doubt)


def _is_array(value: Any) -> bool:
    """Whether an item of a list is a series and not a row of numbers."""
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
    """Converts to float64, masked values to NaN, or raises an error with the reason."""
    if isinstance(value, np.ma.MaskedArray) and value.dtype.kind in "biuf":
        return np.asarray(np.ma.filled(value.astype(np.float64), np.nan))
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
    """Removes padding at the end; refuses infinity and a series without any value."""
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


class SeriesRows(PackedRows):
    """N series stored flat, as a data set for the Trainer.

    Args:
        values: float32 [total, channels], series after series, time first.
        offsets: int64 [N + 1], the start of each series.
        labels: int64 (classes) or float32 (values) [N], or None.

    As a sequence, row i is ``{"values": float32 [length, channels], "labels": …}``.
    """

    tokens = ("values",)
    place = "series {} of {}"
    unit = "series of up to {:,} time steps"
    lighter = "lower batch_size, or max_length with longer='cut' or 'resample'"

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

    def __repr__(self) -> str:
        lengths = self.lengths
        least, most = min(lengths, default=0), max(lengths, default=0)
        steps = str(most) if least == most else f"{least} to {most}"
        targets = {"i": "class labels", "f": "values"}
        kind = "" if self.labels is None else self.labels.dtype.kind
        return (
            f"{type(self).__name__}({len(self)} series, {self.channels} channels, "
            f"{steps} time steps; {targets.get(kind, 'no targets')})"
        )

    @property
    def channels(self) -> int:
        """Number of channels of each series."""
        return int(self.values.shape[1])

    def bare(self, indices: Any) -> Batch:
        """Returns the batch without draws or fields of subclasses."""
        return SeriesRows.gather(self, indices)

    def take(self, indices: Any) -> SeriesRows:
        """Returns these series as a data set."""
        return SeriesRows(**self._gathered(indices))
