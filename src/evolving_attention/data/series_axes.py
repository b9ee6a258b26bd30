"""Finds the time axis in collections of series, and reads tables of many series."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from evolving_attention.errors import InputError, ShapeError, require

TIMES = frozenset(
    (
        "date",
        "datetime",
        "step",
        "t",
        "time",
        "time_step",
        "timepoint",
        "timepoints",
        "timestamp",
        "timestep",
    )
)
CHANNELS = frozenset(
    (
        "channel",
        "channels",
        "dim",
        "dimension",
        "feature",
        "features",
        "variable",
        "variables",
    )
)
IDS = frozenset(
    ("case", "id", "instance", "sample", "series", "subject", "uid", "unit")
)
TIME_FORMS = "write dates as 2024-05-31T12:00, steps as 1, 2, …"  # in messages
_FEW_COLUMNS = 8  # maximum columns of a table that may be a long one
_NUMBERED = re.compile(r"(\D*)(?<!-)(\d+(?:\.\d+)?)(\D*)")  # t1, step 10
_DATED = re.compile(r"\d{4}|\d\D+\d")

Array = np.ndarray[Any, Any]


def is_frame(value: Any) -> bool:
    """Whether this is a DataFrame, without an import of pandas."""
    return hasattr(value, "columns") and hasattr(value, "index")


def frames_axis(frames: Sequence[Any]) -> tuple[int, bool]:
    """Finds DataFrames' (time axis, whether labels or lengths leave no doubt).

    Axis 1 is the rows, axis 2 the columns; axis 0 counts the frames. The first rule
    that applies decides:

    1. the index or the columns are named (``time``, ``channel``, …) or are dates;
    2. one of the two has names, the other numbers: names are channels;
    3. only one of the two differs in length between the frames: it is time;
    4. the longer one is time. Wide frames numbered both ways are aeon's own form,
       ``pd.DataFrame(array [channels, length])``; other frames have time in their rows.
    """
    first = frames[0]
    rows, columns = _role(first.index), _role(first.columns)
    if rows != columns:
        is_rows = rows == "time" or columns == "channel"
        if is_rows != (rows == "channel" or columns == "time"):
            return (1 if is_rows else 2), True
    heights, widths = ({frame.shape[axis] for frame in frames} for axis in (0, 1))
    if _named(first.columns):
        return 1, max(widths) <= max(heights)
    if _named(first.index):
        return 2, True
    if (len(heights) == 1) != (len(widths) == 1):
        return (2 if len(heights) == 1 else 1), True
    return (2 if max(widths) > max(heights) else 1), False


def names_of(labels: Any) -> tuple[str, ...] | None:
    """Returns the labels of an axis as names; None if they are not text."""
    found = tuple(labels)
    return found if all(isinstance(one, str) for one in found) else None


def frames_channels(
    frames: Sequence[Any], axis: int, name: str
) -> tuple[str, ...] | None:
    """Returns channel names of DataFrames with time on ``axis`` (see frames_axis).

    Raises:
        InputError: the frames have different names, or another order.
    """
    found = [names_of(f.columns if axis == 1 else f.index) for f in frames]
    for i, names in enumerate(found):
        alike = frames[i].shape[2 - axis] == frames[0].shape[2 - axis]
        if alike and names != found[0]:  # a different number is refused elsewhere
            shown = [", ".join(one or ["without names"]) for one in (names, found[0])]
            raise InputError(
                f"{name}[{i}]: the channels {shown[0]}, expected {shown[1]} as in "
                f"{name}[0]; name and order the channels of all frames alike"
            )
    return found[0]


def _role(labels: Any) -> str | None:
    """Returns ``"time"`` or ``"channel"`` by name or type of the labels, else None."""
    name = str(labels.name).lower()
    if name in TIMES or str(labels.dtype).startswith(("date", "timedelta", "period")):
        return "time"
    return "channel" if name in CHANNELS else None


def _named(labels: Any) -> bool:
    return labels.dtype.kind not in "iuf"


def step_numbers(labels: Sequence[str]) -> Array | None:
    """Returns numbers that sort time steps such as t1, t2; None: other names."""
    found = [_NUMBERED.fullmatch(label) for label in labels]
    steps = [one for one in found if one]
    if not steps or len(steps) < len(found):
        return None
    alike = len({one.group(1, 3) for one in steps}) == 1
    return _sortable([one[2] for one in steps]) if alike else None


def _sortable(numbers: Sequence[str]) -> Array:
    """Returns the values of these numbers; their ranks where float64 is too coarse."""
    values = np.array([float(one) for one in numbers])
    if len(np.unique(values)) == len(set(numbers)):
        return values
    exact = [Decimal(one) for one in numbers]
    ranks = {value: rank for rank, value in enumerate(sorted(set(exact)))}
    return np.array([ranks[value] for value in exact])


def time_order(text: Sequence[str]) -> tuple[Array, int | None]:
    """Returns numbers that sort times written as text: numbers, t1, t2, …, or dates.

    Returns:
        The numbers, and the index of the first time that is none of these, or None.

    Raises:
        MissingExtraError: pandas, which reads dates, is not installed.
    """
    if all(map(is_number, text)):
        return _sortable(text), None
    numbers = step_numbers(text)
    if numbers is not None:
        return numbers, None
    pandas = require("pandas", extra="timeseries", why="to read tables of series")
    given = pandas.Series(text, dtype=object)
    dates = pandas.to_datetime(given, format="ISO8601", errors="coerce", utc=True)
    if dates.isna().any():  # written in another form, the same for all
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dates = pandas.to_datetime(given, errors="coerce", utc=True)
    bad = dates.isna().to_numpy() | [not _DATED.search(one) for one in text]
    order = np.asarray(dates.astype("int64"))
    odd = bad & [not _NUMBERED.fullmatch(one) for one in text]
    first = odd if odd.any() else bad
    return order, int(np.argmax(first)) if bad.any() else None


def is_number(text: str) -> bool:
    """Whether a text is a finite number."""
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def unsorted(labels: Any) -> Array | None:
    """Returns numbers that sort text labels which neither rise nor fall, else None.

    pandas' ``pivot`` sorts names as text: t1, t10, t2.
    """
    names = names_of(labels)
    numbers = None if names is None else step_numbers(names)
    steps = np.diff([] if numbers is None else numbers)
    return numbers if (steps < 0).any() and (steps > 0).any() else None


def refuse_disorder(labels: Any, where: str) -> None:
    """Refuse numbered time steps in the order of text, such as t1, t10, t2.

    Raises:
        InputError: names two steps that are out of order.
    """
    numbers = unsorted(labels)
    if numbers is None:
        return
    at = int(np.argmax(np.diff(numbers) < 0))
    raise InputError(
        f"{where}: the time step {labels[at]!r} comes before {labels[at + 1]!r}, "
        "expected them in the order of their numbers (pivot sorts names as text); sort "
        "them by number, or pivot by a column of numbers"
    )


def refuse_other_steps(
    steps: Sequence[str] | None, known: Sequence[str] | None, where: str, place: str
) -> None:
    """Refuse names of time steps that differ from those of an earlier table.

    One of the two may be shorter: the names it has are compared.

    Raises:
        InputError: names the first step with another name.
    """
    for i, (found, expected) in enumerate(zip(steps or (), known or (), strict=False)):
        if found != expected:
            raise InputError(
                f"{where}: time step {i} is the column {found!r}, expected "
                f"{expected!r} as in {place}; name and order the columns alike, or "
                "convert the table by .to_numpy() if only the names differ"
            )


def refuse_nested(value: Any, name: str) -> None:
    """Refuse tables whose cells are series: sktime's nested DataFrames.

    Raises:
        ShapeError: says how to convert them.
    """
    cells = value
    if hasattr(value, "to_numpy"):  # the first row tells
        cells = (value.head(1) if hasattr(value, "head") else value).to_numpy()
    nested = isinstance(cells, np.ndarray) and cells.dtype.kind == "O" and cells.size
    if nested and np.ndim(cells.flat[0]) > 0:
        pack = f"[np.stack(list(row)) for row in np.asarray({name})]"
        raise ShapeError(
            f"{name}: each cell is a series, expected numbers; pass a list of arrays "
            "[channels, length], such as "
            + (pack if cells.ndim == 2 else f"list({name})")
        )


def series_of_index(
    table: Any, name: str
) -> tuple[list[Any], tuple[Any, ...], str | None]:
    """Returns the series [channels, length] of a table with the index (series, time).

    Returns:
        The series, sorted by the first index level, their labels in it, and a doubt
        about this order if the rows are in another one.

    Raises:
        ShapeError: the index has more levels, or its first level is time.
        InputError: a time step appears twice, a row has no series or no time, or a
            time is text that is neither a number nor a date.
    """
    index = table.index
    if index.nlevels != 2:
        raise ShapeError(
            f"{name}: a table with {index.nlevels} index levels, expected two, "
            "(series, time); move the others to columns by reset_index or unstack"
        )
    if str(index.names[0]).lower() in TIMES:
        raise ShapeError(
            f"{name}: the first index level is {index.names[0]!r}, expected the "
            f"series, then time; use {name}.swaplevel()"
        )
    for level, what in enumerate(("series", "time")):
        bad = np.asarray(index.get_level_values(level).isna())
        if bad.any():  # grouping would drop these rows without a word
            row = int(np.argmax(bad))
            raise InputError(
                f"{name}: row {row} has the index {tuple(index[row])}, expected a "
                f"{what} in every row; complete it or leave the row out"
            )
    ordered = _times(index, name)
    if not ordered.is_unique:
        twice = ", ".join(map(str, index[ordered.duplicated()][0]))
        raise InputError(
            f"{name}: (series, time) = ({twice}) comes twice, expected each time step "
            "once; average or drop the copies"
        )
    groups = table.set_axis(ordered).groupby(level=0, sort=True, observed=True)
    found = [group.sort_index().to_numpy().T for _, group in groups]
    ids = tuple(label for label, _ in groups)
    doubt = None
    if tuple(dict.fromkeys(index.get_level_values(0))) != ids:
        doubt = (
            f"The series are taken in the sorted order of {index.names[0] or 'level 0'}"
            ", not in that of the rows: sort y by the same ids (a pandas y by "
            "y.sort_index())"
        )
    return found, ids, doubt


def _times(index: Any, name: str) -> Any:
    """Returns the index with times written as text replaced by numbers to sort by.

    Raises:
        InputError: a time is neither a number nor a date.
    """
    times = index.get_level_values(1)
    names = names_of(times)
    if names is None or hasattr(times.dtype, "categories"):  # which are in order
        return index
    numbers, bad = time_order(names)
    if bad is not None:
        raise InputError(
            f"{name}: row {bad} has the time {names[bad]!r}, neither a number nor a "
            f"date, expected a time; {TIME_FORMS}"
        )
    return index.from_arrays([index.get_level_values(0), numbers], names=index.names)


def refuse_long(table: Any, name: str) -> None:
    """Refuse a table with one row per time step where one row per series is expected.

    Such a table has a column named ``id``, ``case`` or ``…_id``, or one column that
    numbers blocks of rows and another one that increases within each block.

    Raises:
        ShapeError: the table looks like a long one.
    """
    values = table.to_numpy() if is_frame(table) else np.asarray(table)
    labels = list(table.columns) if is_frame(table) else list(range(values.shape[1]))
    texts = [str(label).lower() for label in labels]
    ids = [i for i, text in enumerate(texts) if text in IDS or text.endswith("_id")]
    if ids:
        times = [i for i, text in enumerate(texts) if text in TIMES]
        pair = [labels[i] for i in (*ids[:1], *times[:1])]
        what = f"the column {labels[ids[0]]!r} is no time step"
    else:
        blocks = _blocks(values)
        if blocks is None:
            return
        pair = [labels[i] for i in blocks]
        what = (
            f"the columns {pair[0]!r} and {pair[1]!r} look like the number of a series "
            "and its time step"
        )
    steps = f"{name}.set_index({pair})"
    if not is_frame(table):
        steps = f"pd.DataFrame({name}).set_index({pair})"
    if len(pair) < 2:
        steps = f"{name}.set_index([{pair[0]!r}, the column with the time])"
    raise ShapeError(
        f"{name}: {what}; expected a table [n, length] with a series in each row. Is "
        f"it a long table with a row per time step? Then {steps}, with one y per "
        "series in sorted order; else leave the column out"
    )


def _blocks(values: Any) -> tuple[int, int] | None:
    """Returns (column that numbers blocks of rows, column increasing in each block)."""
    rows, width = values.shape
    if rows < 8 or not 2 <= width <= _FEW_COLUMNS:
        return None
    columns = [_ranks(values[:, i]) for i in range(width)]
    for i, block in enumerate(columns):
        begins = np.flatnonzero(np.diff(block)) + 1
        count = len(begins) + 1
        if not (1 < count <= rows // 2 and len(np.unique(block)) == count):
            continue
        inside = np.ones(rows - 1, bool)
        inside[begins - 1] = False
        for j, step in enumerate(columns):
            rises = np.diff(step)
            if j != i and (rises[inside] > 0).all() and (rises[~inside] < 0).any():
                return i, j
    return None


def _ranks(column: Any) -> Any:
    """Returns ranks of the values as integers; NaN and mixed types get equal ranks."""
    try:
        return np.unique(column, return_inverse=True)[1]
    except TypeError:
        return np.zeros(len(column), np.int64)
