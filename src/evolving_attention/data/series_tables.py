"""Time series in CSV files: each row is a series, or a time step."""

from __future__ import annotations

import csv
import io
import itertools
import logging
import re
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evolving_attention.data.lines import open_file
from evolving_attention.data.records import check_separator
from evolving_attention.data.series_axes import (
    CHANNELS,
    IDS,
    TIME_FORMS,
    TIMES,
    is_number,
    time_order,
    unsorted,
)
from evolving_attention.data.series_parts import SeriesPart
from evolving_attention.errors import DataError, require

_LOGGER = logging.getLogger("evolving_attention")
_TARGETS = ("label", "labels", "target", "class", "y")
# Cells without a value: in every column, and among numbers, for they may be names.
_EMPTY = (
    *("", "?", "nan", "NaN", "-nan", "-NaN", "<NA>", "#N/A", "#N/A N/A", "#NA"),
    *("1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
_WORDS = ("NA", "N/A", "n/a", "NULL", "null", "None")
_BLOCK = 1 << 20  # bytes read at once
_DELIMITERS = ",;\t|"
_NAMELESS = re.compile(r"(Unnamed: \d+)?")  # pandas' name of a nameless column

Array = np.ndarray[Any, Any]


def read_csv(
    file: str | Path,
    *,
    target: str | None = None,
    id: str | None = None,
    time: str | None = None,
    regression: bool | None = None,
    labelled: bool = True,
    delimiter: str | None = None,
) -> SeriesPart:
    """Read time series from a table with a header line.

    A long table has a row per time step: a column that names the series, one with the
    time, and one for each channel (or one with the channel's name and one with its
    value). In any other table each row is a series with one channel, its steps in the
    order of the columns, or of their numbers where these mix (t1, t10, t2). Empty cells
    are missing values, at the end padding; so are NA, null and the like among numbers,
    while these words may be labels or ids. A nameless first column, pandas' index, is
    skipped.

    Args:
        file: path of the table.
        target: column of labels or values, the same in all rows of a series; None:
            ``label``, ``labels``, ``target``, ``class`` or ``y``.
        id: column that names the series; None: ``id``, ``case``, ``series`` or similar,
            or ``…_id``.
        time: column that sorts the rows of a series: numbers, dates or t1, t2, …; None:
            ``time``, ``t``, ``step``, ``date`` or similar.
        regression: whether targets are values; None: true if one is not a whole number.
        labelled: whether a table without targets, or without ``target``, is an error;
            False: ``y`` is None if there are none, or if one is missing or unusable.
        delimiter: column separator; None: the most frequent of , ; | and tab in the
            header.

    Returns:
        The series in the order of their first rows, with ``ids``, and with
        ``channel_names`` or ``step_names``.

    Raises:
        DataError: the file is missing or empty, a column is missing or nameless, two
            columns may be the target, id or time, or a value is unusable; says where.
        ConfigError, MissingExtraError: a delimiter is not one character; no pandas.

    Example::

        part = ea.timeseries.read_csv("sensors.csv", target="activity")
        model.fit(part.X, part.y)
    """
    table = _Table(Path(file), delimiter, {target, id, time})
    column = table.role(target, "target", _TARGETS, needed=labelled)
    if column is None and labelled:
        raise table.error(
            f"has no column of targets among {table.shown()}, expected label, target "
            'or y; name the column by target= (--label_column_name "…")'
        )
    time_column = table.role(time, "time", TIMES)
    id_column = table.role(id, "id", IDS, "_id")
    taken = {column, time_column, id_column}
    others = [name for name in table.columns if name not in taken]
    if not others:
        raise table.error(
            f"has no columns of values besides {table.shown()}, expected at least one"
        )
    if time_column is None:
        found = _wide(table, others, id_column)
    elif id_column is None:
        raise table.error(
            f"has the column {time_column!r} for the time and none for the series, "
            f"expected an id among {table.shown()}; name it by id= (--id_column_name)"
        )
    else:
        found = _long(table, others, id_column, time_column)
    X, first_rows, ids, names, steps = found
    if column is not None and time_column is not None:
        table.check_constant(column, str(id_column))
    y, is_regression = _targets(table, column, first_rows, regression, labelled)
    part = SeriesPart(X, y, is_regression, str(file), ids, names, steps)
    form = "series in rows" if time_column is None else f"steps by {time_column!r}"
    _LOGGER.info("%r, %s, target %r", part, form, column)
    return part


class _Table:
    """A CSV file as text cells, with errors that name its lines."""

    def __init__(
        self, path: Path, delimiter: str | None, given: Collection[str | None]
    ) -> None:
        self.path, self._header_lines = path, 1
        if delimiter is not None:
            check_separator(delimiter)
        pandas = require("pandas", extra="timeseries", why="to read tables of series")
        if not path.is_file():
            raise DataError(
                "no such file, expected a table of time series; check the path",
                str(path),
            )
        try:
            header, names, self._header_lines, delimiter = _header(path, delimiter)
            _refuse_nul(path)
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # rows longer than the header
                self.frame = pandas.read_csv(
                    path,
                    sep=delimiter,
                    dtype=str,
                    encoding="utf-8-sig",
                    keep_default_na=False,
                    na_values=_EMPTY,
                    skip_blank_lines=False,
                    index_col=False,
                )
        except UnicodeDecodeError as error:
            raise self.error(
                f"is not UTF-8 text ({error.reason} at byte {error.start}), expected a "
                "table; save it as UTF-8"
            ) from None
        except DataError:
            raise
        except (ValueError, csv.Error, Warning) as error:
            reason = str(error).strip().removeprefix("Error tokenizing data. C error: ")
            raise self.error(
                f"cannot be read as a table ({reason}), expected a header and rows of "
                "as many cells"
            ) from error
        names = [name.strip() for name in names]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise self.error(
                f"has the column {twice!r} twice, expected different names; rename one",
                0,
            )
        if len(names) < 2:
            raise self.error(
                f"has one column, {header.strip()[:40]!r}, expected several; name what "
                "is between them by delimiter= (--delimiter)",
                0,
            )
        if all(map(is_number, names)) and not all(map(str.isdigit, names)):
            raise self.error(
                "has only numbers in its first line, expected a header; add one, such "
                "as label,0,1,2",
                0,
            )
        self.frame.columns = names
        if _NAMELESS.fullmatch(names[0]) and names[0] not in given:
            self.frame = self.frame.drop(columns=names.pop(0))
        for i, name in enumerate(names):
            if _NAMELESS.fullmatch(name) and name not in given:
                raise self.error(
                    f"has a column without a name after {names[i - 1]!r}, expected "
                    "one for every column; name it or take it out",
                    0,
                )
        self.frame = self.frame.dropna(how="all")
        if not len(self.frame):
            raise self.error("has no rows below the header, expected series")

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.frame.columns)

    def shown(self) -> str:
        """Returns the first columns, for messages."""
        names = self.columns
        return ", ".join(names[:8]) + (f", … ({len(names)})" if len(names) > 8 else "")

    def error(self, reason: str, row: int | None = None) -> DataError:
        """Returns an error in this file, at the row counted from 1; 0 is the header."""
        line = row and row + self._header_lines - 1
        return DataError(reason, str(self.path), None if line is None else line + 1)

    def role(
        self,
        given: str | None,
        what: str,
        known: Collection[str],
        ending: str = "\0",
        needed: bool = True,
    ) -> str | None:
        """Returns the given column, or the only one with a known name, or None."""
        if given is not None:
            if given not in self.columns:
                if not needed:
                    return None
                raise self.error(
                    f"has no column {given!r}, expected the {what} among "
                    f"{self.shown()}; correct the name"
                )
            return given
        found = [
            name
            for name in self.columns
            if name.lower() in known or name.lower().endswith(ending)
        ]
        if len(found) > 1:
            raise self.error(
                f"has the columns {', '.join(map(repr, found))}, each of which may be "
                f"the {what}, expected one; name it by {what}= (--"
                f"{'label' if what == 'target' else what}_column_name)",
                0,
            )
        return found[0] if found else None

    def numbers(self, names: Sequence[str]) -> Array:
        """Returns these columns as float64 [rows, columns], NaN for empty cells."""
        found = np.empty((len(self.frame), len(names)))
        for i, name in enumerate(names):
            column = self.frame[name]
            try:
                found[:, i] = _values(column)
                continue
            except ValueError:  # perhaps for a word that stands for an empty cell
                column = column.mask(column.isin(_WORDS))
            try:
                found[:, i] = _values(column)
            except ValueError:
                row, text = next(
                    (row, text)
                    for row, text in column.dropna().items()
                    if not is_number(text)
                )
                raise self.error(
                    f"{text!r} in the column {name!r} is no number, expected one or "
                    "an empty cell; leave columns that are no values out, or name "
                    "them by target= (--label_column_name), id= (--id_column_name) or "
                    "time= (--time_column_name)",
                    row + 1,
                ) from None
        return found

    def cells(self, name: str) -> Any:
        """Returns a column as text without outer blanks, NaN for empty cells."""
        column = self.frame[name].str.strip()
        empty, words = column == "", column.isin(_WORDS)
        if all(map(is_number, column[~(empty | words)].dropna())):
            empty |= words
        return column.mask(empty)

    def text(self, name: str) -> Array:
        """Returns a column as text; an empty cell is an error."""
        column = self.cells(name)
        empty = column.isna().to_numpy()
        if empty.any():
            row = int(self.frame.index[int(np.argmax(empty))])
            raise self.error(
                f"the column {name!r} is empty, expected a value in every row; "
                "complete it or leave the row out",
                row + 1,
            )
        return np.array(column.tolist(), dtype=object)

    def check_constant(self, column: str, id_column: str) -> None:
        """Refuse a series with more than one target; says nothing of empty cells."""
        values, ids = self.cells(column), self.text(id_column)
        given = values.notna().to_numpy()
        first: dict[str, str] = {}
        for row, one, value in zip(
            self.frame.index[given], ids[given], values[given], strict=True
        ):
            if first.setdefault(one, value) != value:
                raise self.error(
                    f"the series {one!r} has the targets {first[one]!r} and {value!r} "
                    f"in the column {column!r}, expected one; is it a channel? Name "
                    "the target by target= (--label_column_name)",
                    row + 1,
                )

    def order(self, name: str) -> Array:
        """Returns the time column as numbers to sort by."""
        text = self.text(name)
        numbers, bad = time_order(text.tolist())
        if bad is not None:
            raise self.error(
                f"{text[bad]!r} in the column {name!r} is neither a number nor a date, "
                f"expected a time; {TIME_FORMS}",
                int(self.frame.index[bad]) + 1,
            )
        return numbers


def _values(column: Any) -> Array:
    """Returns a column of text as float64, NaN for empty cells."""
    values: Array = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def _header(path: Path, delimiter: str | None) -> tuple[str, list[str], int, str]:
    """Reads the header: its first line, the names, its lines, and the delimiter."""
    with io.TextIOWrapper(open_file(path), encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        if delimiter is None:
            delimiter = max(_DELIMITERS, key=first.count)
        # a quoted name may go on in the next line
        reader = csv.reader(itertools.chain([first], file), delimiter=delimiter)
        return first, next(reader, []), max(1, reader.line_num), delimiter


def _refuse_nul(path: Path) -> None:
    """Refuse a file with a NUL character, which would end a cell for pandas."""
    line = 1
    with open_file(path) as file:
        while block := file.read(_BLOCK):
            if (place := block.find(b"\0")) >= 0:
                line += block.count(b"\n", 0, place)
                raise DataError("NUL character; remove it", str(path), line)
            line += block.count(b"\n")


_Names = tuple[str, ...] | None
_Found = tuple[Any, Array, _Names, _Names, _Names]


def _wide(table: _Table, steps: Sequence[str], id_column: str | None) -> _Found:
    """Reads one series per row: (series, first rows, ids, channel and step names)."""
    ids = None
    if id_column is not None:
        ids = table.text(id_column)
        seen = set()
        for row, one in zip(table.frame.index, ids, strict=True):
            if one in seen:
                raise table.error(
                    f"the series {one!r} has several rows and there is no column of "
                    f"time among {table.shown()}; name it by time= "
                    "(--time_column_name)",
                    row + 1,
                )
            seen.add(one)
    numbers = unsorted(steps)
    if numbers is not None:
        steps = [steps[i] for i in np.argsort(numbers, kind="stable")]
    values = table.numbers(steps)
    return (
        values[:, np.newaxis, :],
        np.arange(len(values)),
        None if ids is None else tuple(ids.tolist()),
        None,
        tuple(steps),
    )


def _long(table: _Table, names: list[str], id_column: str, time: str) -> _Found:
    """Reads one time step per row; returns the same tuple as :func:`_wide`."""
    ids, times = table.text(id_column), table.order(time)
    kinds = [name for name in names if name.lower() in CHANNELS]
    if len(kinds) == 1 and len(names) == 2:  # (id, time, channel, value)
        (value,) = [name for name in names if name not in kinds]
        channel = table.text(kinds[0])
        channels = list(dict.fromkeys(channel.tolist()))
        column = np.array([channels.index(one) for one in channel])
        given = table.numbers([value])[:, 0]
    else:
        channels, column, given = names, None, table.numbers(names)
    names_seen, first, series_of = np.unique(
        ids, return_index=True, return_inverse=True
    )
    X, kept = [], np.argsort(first)  # in file order
    for number in kept:
        rows = np.flatnonzero(series_of == number)
        steps, step_of = np.unique(times[rows], return_inverse=True)
        cells = step_of if column is None else step_of * len(channels) + column[rows]
        _refuse_twice(table, rows, cells, (str(names_seen[number]), time))
        one = np.full((len(channels), len(steps)), np.nan)
        if column is None:
            one[:, step_of] = given[rows].T
        else:
            one[column[rows], step_of] = given[rows]
        X.append(one)
    return X, first[kept], tuple(names_seen[kept].tolist()), tuple(channels), None


def _refuse_twice(
    table: _Table, rows: Array, cells: Array, where: tuple[str, str]
) -> None:
    """Refuse two rows for one time step (and channel) of a series."""
    order = np.argsort(cells, kind="stable")
    twice = np.flatnonzero(np.diff(cells[order]) == 0)
    if len(twice):
        row = rows[order[twice[0] + 1]]
        time = table.frame[where[1]].iloc[row]
        raise table.error(
            f"the time {time} of the series {where[0]!r} comes twice, expected each "
            "time once; average or drop the copies",
            int(table.frame.index[row]) + 1,
        )


def _targets(
    table: _Table,
    column: str | None,
    rows: Array,
    regression: bool | None,
    labelled: bool,
) -> tuple[Array | None, bool]:
    """Returns the target of each series or None, and whether targets are values."""
    if column is None:
        return None, False
    try:
        return _labels_or_values(table, column, rows, regression)
    except DataError as error:
        if labelled:
            raise
        _LOGGER.info("the targets are left out: %s", error)
        return None, False


def _labels_or_values(
    table: _Table, column: str, rows: Array, regression: bool | None
) -> tuple[Array, bool]:
    """Returns the target of each series, and whether targets are values."""
    text = table.text(column)[rows]
    numeric = all(map(is_number, text))
    values = text.astype(np.float64) if numeric else None
    whole = values is not None and bool((values == np.round(values)).all())
    if regression is None:
        regression = numeric and not whole
    if not regression:
        labels = text.tolist()
        if values is not None and whole:
            labels = [re.sub(r"\.0*$", "", one) for one in labels]  # but 01 is not 1
            labels = ["0" if one in ("", "-", "-0") else one for one in labels]
        if words := sorted(set(labels).intersection(_WORDS)):
            _LOGGER.warning(
                "%s: %s in the column %r is read as a label; leave these rows out if "
                "it stands for a missing one",
                table.path,
                " and ".join(map(repr, words)),
                column,
            )
        return np.array(labels), False
    if values is None:
        row = next(i for i, one in enumerate(text) if not is_number(one))
        raise table.error(
            f"{text[row]!r} in the column {column!r} is no number, expected values for "
            "a regression; leave regression=True (--do_regression) out for labels",
            int(table.frame.index[rows[row]]) + 1,
        )
    return values, True
