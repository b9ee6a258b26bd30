"""Reads records of TSV, CSV and JSON files, with the position of each field.

TSV is GLUE's dialect: fields are split only at tabs, and a quotation mark is an
ordinary character. CSV is read by the csv module (RFC 4180 quoting, fields may contain
line ends). JSON files are JSON lines, or one array of objects.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evolving_attention.data.json_objects import read_objects, unclean
from evolving_attention.data.lines import read_lines
from evolving_attention.data.report import RowCollector
from evolving_attention.errors import ConfigError

SUFFIXES = (".tsv", ".csv", ".jsonl", ".json")
_MAX_RECORD_LINES = 1000
_SEPARATORS = {";": "';'", "\t": "tab", "|": "'|'", ",": "','"}  # as in a shell


class Record(NamedTuple):
    """One row: line (from 1), index (from 0), values, and the column of each value."""

    line: int
    index: int  # type: ignore[assignment]  # replaces tuple.index
    values: Sequence[Any]
    place: Callable[[int], int]


def finite(number: float | str) -> float | None:
    """Returns a number, or its text, as a finite float; None if it is none."""
    try:
        value = float(number)
    except OverflowError:  # a whole number of more than 308 digits
        return None
    return value if math.isfinite(value) else None


def parses(text: str | bytes) -> bool:
    """Whether ``float`` reads the text, as a number, infinity or NaN."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_records(
    path: Path,
    wanted: Sequence[str],
    collector: RowCollector,
    header: Sequence[str] | None = None,
    delimiter: str = ",",
) -> Iterator[Record]:
    """Yield the records of a file; bad ones go to ``collector``.

    Args:
        path: a file whose suffix is one of ``SUFFIXES``.
        wanted: names of the columns to return, in this order.
        collector: receives the bad rows.
        header: the column names of a TSV file that has no header line.
        delimiter: field separator of a CSV file.

    Raises:
        DataError: the file is unusable (missing, empty, no such column, duplicate
            column), or a row is bad and the policy is ``"raise"``.
    """
    kind = _suffix(path)
    if kind == ".tsv":
        return _read_tsv(path, wanted, collector, header)
    if kind == ".csv":
        return _read_csv(path, wanted, collector, delimiter)
    return _read_json(path, wanted, collector)


def read_names(path: Path, collector: RowCollector, delimiter: str = ",") -> list[str]:
    """Returns a file's column names: its header line, or its first object's keys."""
    quiet = RowCollector(collector.report.file, "skip")
    kind = _suffix(path)
    if kind in (".json", ".jsonl"):
        for _, _, _, value in read_objects(path, quiet):
            return list(value)
        collector.fail("no JSON object found; expected one per line", 1, 1)
    for _, text in read_lines(path, quiet, header=True):
        if kind == ".tsv":
            names = text.split("\t")
        else:
            names = _csv_header(text, collector, delimiter)
        _refuse_duplicates(names, collector)
        return names
    collector.fail("no header line", 1, 1)


def texts_are_good(
    record: Record, texts: int, collector: RowCollector, *, empty: bool
) -> bool:
    """Check that the first ``texts`` values are text; otherwise reject the record.

    ``empty`` accepts empty text, because every row of a test set needs a prediction.
    """
    for index, field in enumerate(record.values[:texts]):
        if isinstance(field, str) and (empty or field.strip()):
            continue
        kind = type(field).__name__
        what = "empty" if isinstance(field, str) else f"{kind}, not text"
        collector.reject(record.line, record.place(index), f"text field is {what}")
        return False
    return True


def check_separator(delimiter: str) -> None:
    """Refuse a field separator that is not one character, or has another meaning.

    Raises:
        ConfigError: it is no separator.
    """
    if len(delimiter) != 1 or delimiter in '"\r\n':
        raise ConfigError(
            f"delimiter={delimiter!r}, expected one character such as ';', no "
            "quotation mark and no line end; correct it"
        )


def check_delimiter(path: Path, delimiter: str) -> None:
    """Refuse an invalid separator, and separators for files other than CSV.

    Raises:
        ConfigError: the separator is not one character, or the file is not CSV.
    """
    check_separator(delimiter)
    if delimiter != "," and path.suffix.lower() != ".csv":
        raise ConfigError(
            f"{path}: delimiter={delimiter!r} with a {path.suffix} file, expected a "
            ".csv file; leave it out"
        )


def separator_hint(path: Path, names: Sequence[str]) -> str:
    """Suggests a separator for a CSV file with a single column; else returns ''."""
    if path.suffix.lower() != ".csv" or len(names) != 1:
        return ""
    mark = next((mark for mark in _SEPARATORS if mark in names[0]), None)
    if mark is None:
        return ""
    return (
        f"the only column is {names[0][:100]!r}: is the separator {mark!r}? Use "
        f"delimiter={mark!r} (--delimiter {_SEPARATORS[mark]})"
    )


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ConfigError(
            f"{path}: file type {suffix or '(none)'!r} is not known; expected a name "
            f"that ends in {', '.join(SUFFIXES)}"
        )
    return suffix


def _refuse_duplicates(names: Sequence[str], collector: RowCollector) -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            column = sum(len(n) + 1 for n in names[:index]) + 1
            collector.fail(
                f"column {name!r} appears twice in the header; rename one", 1, column
            )


def _positions(
    names: Sequence[str], wanted: Sequence[str], collector: RowCollector
) -> list[int]:
    """Returns the index of each wanted column in the header."""
    _refuse_duplicates(names, collector)
    missing = [name for name in wanted if name not in names]
    hint = separator_hint(Path(collector.report.file), names)
    if missing and hint:
        collector.fail(f"no column {', '.join(map(repr, missing))}; {hint}", 1, 1)
    if missing:
        collector.fail(
            f"no column {', '.join(map(repr, missing))} in the header; expected "
            f"{', '.join(wanted)}, found {', '.join(names)[:300]}; is this the file "
            "of another task, or is the header missing?",
            1,
            1,
        )
    return [names.index(name) for name in wanted]


def _count_reason(found: int, expected: int, what: str) -> str:
    missing_or_extra = "too few" if found < expected else "too many"
    return f"{found} fields ({missing_or_extra}), expected {expected}; {what}"


def _read_tsv(
    path: Path,
    wanted: Sequence[str],
    collector: RowCollector,
    header: Sequence[str] | None,
) -> Iterator[Record]:
    names = list(header) if header else []
    indices = [names.index(name) for name in wanted] if header else []
    for number, text in read_lines(path, collector, header=header is None):
        fields = text.split("\t")
        if not names:
            names, indices = fields, _positions(fields, wanted, collector)
            continue
        if len(fields) != len(names):
            column = len(text) + 1
            if len(fields) > len(names):
                column = sum(len(f) + 1 for f in fields[: len(names)])
            what = "fields are split at tabs only, quotation marks are text"
            reason = _count_reason(len(fields), len(names), what)
            collector.reject(number, column, reason)
        elif header is None and fields == names:
            collector.reject(number, 1, _REPEATED_HEADER)
        else:
            values = [fields[i] for i in indices]
            index = collector.report.rows_in - 1
            yield Record(number, index, values, _tsv_place(fields, indices))


_REPEATED_HEADER = "the header line again (were files concatenated?)"


def _tsv_place(fields: list[str], indices: list[int]) -> Callable[[int], int]:
    return lambda i: sum(len(field) + 1 for field in fields[: indices[i]]) + 1


class _Lookahead:
    """Line iterator with push-back, for records that span several lines."""

    def __init__(self, lines: Iterator[tuple[int, str]]) -> None:
        self._lines = lines
        self.taken: list[tuple[int, str]] = []  # lines of the record being read
        self.kept: list[tuple[int, str]] = []  # lines pushed back, last one first

    def __iter__(self) -> _Lookahead:
        return self

    def __next__(self) -> str:
        if len(self.taken) >= _MAX_RECORD_LINES:
            raise StopIteration
        item = self.kept.pop() if self.kept else next(self._lines)
        self.taken.append(item)
        return item[1] + "\n"

    def push_back(self) -> None:
        """Push back all lines but the first, for the next record."""
        self.kept.extend(reversed(self.taken[1:]))
        del self.taken[1:]


def _csv_header(text: str, collector: RowCollector, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([text], strict=True, delimiter=delimiter))
    except csv.Error as error:
        collector.fail(f"header line: {error}", 1, 1)


def _read_csv(
    path: Path, wanted: Sequence[str], collector: RowCollector, delimiter: str
) -> Iterator[Record]:
    lines = _Lookahead(read_lines(path, collector, header=True, quoted=True))
    names: list[str] = []
    indices: list[int] = []
    joined = 0
    while True:
        lines.taken.clear()
        reason, column = "", 1
        try:
            fields = next(csv.reader(lines, strict=True, delimiter=delimiter))
        except StopIteration:
            break
        except csv.Error as error:
            fields, reason = [], f"CSV quoting: {error}"
        number, text = lines.taken[0]
        if not names:
            if reason:
                collector.fail(f"header line: {reason}", number, 1)
            names, indices = fields, _positions(fields, wanted, collector)
            continue
        if reason:
            column = text.find('"') + 1 or len(text)
        elif not fields:
            reason = "blank line"
        elif len(fields) != len(names):
            mark = "a comma" if delimiter == "," else repr(delimiter)
            what = f"put a field that holds {mark} in double quotation marks"
            reason = _count_reason(len(fields), len(names), what)
            if len(fields) > len(names):
                column = _csv_place(text, fields, delimiter, [len(names)])(0)
            else:
                column = len(text) + 1
        elif fields == names:
            reason = _REPEATED_HEADER
        if reason:
            # Reject only the first line: the lines after a stray quotation mark may be
            # good.
            lines.push_back()
            collector.reject(number, column, reason)
            continue
        # Each line was counted as a row.
        collector.report.rows_in -= len(lines.taken) - 1
        joined += len(lines.taken) > 1
        index = collector.report.rows_in - 1 - len(lines.kept)
        values = [fields[i] for i in indices]
        place = _csv_place(text, fields, delimiter, indices)
        yield Record(number, index, values, place)
    if joined:
        collector.note(f"{joined} row(s) span several lines by quotation marks")


def _csv_place(
    text: str, fields: list[str], delimiter: str, indices: list[int]
) -> Callable[[int], int]:
    def place(index: int) -> int:
        position = 0
        for field in fields[: indices[index]]:
            written = field.replace('"', '""')
            found = text.find(written, position)
            position = text.find(delimiter, max(found, position) + len(written)) + 1
            if position <= 0:
                return 1
        return position + 1

    return place


def _read_json(
    path: Path, wanted: Sequence[str], collector: RowCollector
) -> Iterator[Record]:
    for number, offset, text, value in read_objects(path, collector):
        missing = [name for name in wanted if name not in value]
        bad = next(
            (n for n in wanted if isinstance(value.get(n), str) and unclean(value[n])),
            None,
        )
        if missing:
            names = ", ".join(map(repr, missing))
            found = ", ".join(value)[:200]
            reason = f"no field {names}; expected {', '.join(wanted)}, found {found}"
            collector.reject(number, offset + 1, reason)
        elif bad is not None:
            column = offset + text.find(f'"{bad}"') + 1
            collector.reject(number, column, f"field {bad!r} {unclean(value[bad])}")
        else:
            values = [value[n] for n in wanted]
            index = collector.report.rows_in - 1
            yield Record(number, index, values, _json_place(text, offset, wanted))


def _json_place(text: str, offset: int, wanted: Sequence[str]) -> Callable[[int], int]:
    return lambda i: offset + text.find(f'"{wanted[i]}"') + 1
