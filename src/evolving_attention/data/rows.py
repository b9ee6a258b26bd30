"""Reads the user's own data from CSV, TSV and JSON files.

:mod:`.columns` chooses text and label columns by run_glue's rule. Decimal labels mean
regression; other labels are classes, in sorted order. The choices are logged. Rows are
checked as strictly as GLUE's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from evolving_attention.data.columns import SAMPLE, WEIGHT, Columns, choose_columns
from evolving_attention.data.labels import KnownLabels, class_name, listed, name_of
from evolving_attention.data.records import (
    check_delimiter,
    finite,
    read_names,
    read_records,
    separator_hint,
    texts_are_good,
)
from evolving_attention.data.report import RowCollector
from evolving_attention.data.several_labels import as_lists, label_lists
from evolving_attention.data.table import TableDataset
from evolving_attention.errors import ConfigError
from evolving_attention.notices import say

_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_MOST_NUMBERS = 0.9  # above this share of numbers, other labels are errors


class _Row(NamedTuple):
    line: int
    column: int
    texts: Sequence[str]
    label: Any
    weight: float | None
    index: int  # type: ignore[assignment]  # replaces tuple.index


def load_file(
    path: str | Path,
    *,
    like: TableDataset | KnownLabels | None = None,
    text_columns: Sequence[str] | str | None = None,
    label_column: str | None = None,
    labelled: bool = True,
    regression: bool | None = None,
    several: bool = False,
    bad_rows: str = "raise",
    delimiter: str = ",",
) -> TableDataset:
    """Read a data set from a .csv, .tsv, .jsonl or .json file.

    Args:
        path: the file; CSV and TSV begin with a header line.
        like: the training set, with the same columns and labels; or the labels of a
            trained model, whose text columns are read if the file has them.
        text_columns: the one or two text columns; default: by run_glue's rule.
        label_column: name of the label column in the file, by default ``label``, else
            ``labels``; in the data set it is ``label``.
        labelled: False for a file to predict: labels may be missing or -1.
        regression: whether labels are scores, not classes; None: if they are decimal.
        several: whether a label is a list of labels in a JSON file: names, or 0 and 1
            for each class. In the data set it is a list of 0 and 1.
        bad_rows: ``"raise"``, ``"skip"`` or ``"report"``.
        delimiter: field separator of a CSV file.

    Returns:
        Rows ``{text columns, "label", "idx"}``, of a training file also
        ``sample_weight`` if it has this column; ``label_names`` is None for regression.

    Raises:
        DataError: the file is unusable or a row is bad (file, line, column, reason).
        ConfigError: the file type or an option is unknown.

    Example::

        train = load_file("train.csv")
        dev = load_file("dev.csv", like=train)
    """
    path = Path(path)
    collector = RowCollector(str(path), bad_rows)
    check_delimiter(path, delimiter)
    names = read_names(path, collector, delimiter)
    _refuse_unknown_texts(path, collector, names, text_columns, like)
    if like is not None:
        text_columns = _texts_of(like, names) if text_columns is None else text_columns
        label_column = like.label_column if label_column is None else label_column
    given = (text_columns, label_column, labelled and like is None)
    chosen = _choose(path, collector, names, *given, delimiter)
    if None in given:
        say(f"{path}: {chosen}")
    rows = _read(path, collector, names, chosen, labelled, delimiter)
    label_names, parse = _rule(rows, like, labelled, regression, several)
    if like is None and (several or regression is None) and label_names != ():
        example = rows[0].label if rows else ""
        say(f"{path}: {labels_told(label_names, example, several)}")
    labels, used = [], []
    for row in rows:
        value = parse(row.label)
        if value is None:
            reason = _label_reason(row.label, label_names, several)
            collector.reject(row.line, row.column, reason)
            continue
        collector.use()
        labels.append(value)
        used.append(row)
    collector.report.rejected.sort(key=lambda r: r.line)
    report = collector.finish()
    if label_names is not None and len(label_names) == 1 and like is None:
        report.notes.append(f"all rows have the label {label_names[0]!r}")
    return TableDataset(
        _columns(chosen, used, labels),
        text_columns=chosen.texts,
        label_names=label_names,
        has_labels=labelled or any(value != -1 for value in labels),
        report=report,
        label_column=chosen.label,
    )


def _refuse_unknown_texts(
    path: Path, collector: RowCollector, names: Sequence[str], texts: Any, like: Any
) -> None:
    """Refuses text columns that the header of a training file does not have."""
    given = [texts] if isinstance(texts, str) else list(texts or ())
    missing = ", ".join(repr(name) for name in given if name not in names)
    header = path.suffix.lower() in (".csv", ".tsv") and not separator_hint(path, names)
    if missing and header and like is None:
        collector.fail(
            f"no column {missing}; the header has {', '.join(names)[:300]}; name the "
            "texts' columns by text_columns= (--text_column_names); is the header "
            "missing?",
            1,
            1,
        )


def _texts_of(
    like: TableDataset | KnownLabels, names: Sequence[str]
) -> Sequence[str] | None:
    """Returns the text columns of ``like``; None if a file lacks a trained model's."""
    texts = like.text_columns
    if isinstance(like, KnownLabels) and texts is not None and {*texts} - {*names}:
        return None
    return texts


def _read(
    path: Path,
    collector: RowCollector,
    names: Sequence[str],
    chosen: Columns,
    labelled: bool,
    delimiter: str,
) -> list[_Row]:
    """Reads the rows whose texts and weight are valid; does not check labels."""
    has_labels = labelled or chosen.has_label
    if has_labels and not chosen.has_label and path.suffix.lower() in (".csv", ".tsv"):
        hint = separator_hint(path, names) or (
            f"the header has {', '.join(names)[:300]}; name the labels' column by "
            "label_column= (--label_column_name); is the header missing?"
        )
        collector.fail(f"no column '{chosen.label}'; {hint}", 1, 1)
    texts = len(chosen.texts)
    wanted = [*chosen.texts]
    wanted += [chosen.label] * has_labels + [WEIGHT] * chosen.has_weight
    rows = []
    for record in read_records(path, wanted, collector, delimiter=delimiter):
        if texts_are_good(record, texts, collector, empty=not labelled):
            values = record.values
            weight = _number(values[-1]) if chosen.has_weight else None
            if chosen.has_weight and (weight is None or weight < 0):
                at = record.place(len(wanted) - 1)
                given = repr(str(values[-1])[:60])
                reason = f"{WEIGHT} is {given}, expected a finite number from 0"
                collector.reject(record.line, at, reason)
                continue
            label = values[texts] if has_labels else -1
            column = record.place(texts) if has_labels else 1
            rows.append(
                _Row(record.line, column, values[:texts], label, weight, record.index)
            )
    return rows


def _choose(
    path: Path,
    collector: RowCollector,
    names: Sequence[str],
    text_columns: Sequence[str] | str | None,
    label_column: str | None,
    weighted: bool,
    delimiter: str,
) -> Columns:
    """Returns the file's columns: given, or chosen by its first rows."""

    def sample(wanted: Sequence[str]) -> dict[str, list[Any]]:
        quiet = RowCollector(str(path), "skip")
        records = read_records(path, wanted, quiet, delimiter=delimiter)
        rows = [record.values for record in islice(records, SAMPLE)]
        return {name: [row[i] for row in rows] for i, name in enumerate(wanted)}

    chosen = choose_columns(names, sample, text_columns, label_column, weighted)
    if len(chosen.texts) not in (1, 2):
        if hint := separator_hint(path, names):
            collector.fail(f"no column '{chosen.label}'; {hint}", 1, 1)
        raise ConfigError(
            f"{path}: {len(chosen.texts)} text columns; expected one or two besides "
            f"{chosen.label!r}, the file has {', '.join(names)}; name them by "
            "text_columns= (--text_column_names)"
        )
    if taken := {chosen.label, "label", "idx"} & set(chosen.texts):
        raise ConfigError(
            f"{path}: the text column {taken.pop()!r} has a name that is taken; "
            "expected another than that of the labels, 'label' and 'idx'; rename the "
            "column"
        )
    return chosen


def _columns(
    chosen: Columns, rows: list[_Row], labels: list[Any]
) -> dict[str, list[Any]]:
    """Returns the columns of the data set of these rows."""
    columns: dict[str, list[Any]] = {
        name: [row.texts[i] for row in rows] for i, name in enumerate(chosen.texts)
    }
    columns |= {"label": labels, "idx": [row.index for row in rows]}
    if chosen.has_weight:
        columns[WEIGHT] = [row.weight for row in rows]
    return columns


def labels_told(
    label_names: tuple[str, ...] | None, example: Any, several: bool = False
) -> str:
    """Describes in one line how the labels are read."""
    if label_names is None:
        return (
            f"the labels are scores, such as {example}: regression; "
            "regression=False makes them classes (--do_regression False)"
        )
    shown = listed(label_names)
    if several:
        return f"several labels per text, of {len(label_names)}: {shown}"
    numbers = all(_INTEGER.fullmatch(name) for name in label_names)
    other = "; regression=True makes them scores (--do_regression)" if numbers else ""
    return f"classification, {len(label_names)} labels: {shown}{other}"


def _rule(
    rows: list[_Row],
    like: TableDataset | KnownLabels | None,
    labelled: bool,
    regression: bool | None,
    several: bool,
) -> tuple[tuple[str, ...] | None, Callable[[Any], Any]]:
    """Like :func:`_label_rule`, or for a list of labels per row."""
    if not several:
        return _label_rule(rows, like, labelled, regression)
    known = None if like is None else like.label_names
    return label_lists([row.label for row in rows], known, labelled)


def _label_rule(
    rows: list[_Row],
    like: TableDataset | KnownLabels | None,
    labelled: bool,
    regression: bool | None,
) -> tuple[tuple[str, ...] | None, Callable[[Any], int | float | None]]:
    """Returns (class names, None for regression; function from a field to a label)."""
    fields = [row.label for row in rows if row.label not in ("", None)]
    if not labelled:
        fields = [field for field in fields if str(field) != "-1"]
    if like is not None:
        kind = "number" if like.is_regression else "text"
    else:
        kind = "number" if regression else _label_kind(fields)
    if kind == "number" and (like is not None or regression is not False):

        def score(field: Any) -> float | None:
            if not labelled and str(field) == "-1":
                return -1.0
            return _number(field)

        return None, score
    if like is not None:
        names = like.label_names or ()
    elif kind == "integer":
        names = tuple(
            map(str, sorted({v for v in map(_integer, fields) if v is not None}))
        )
    elif kind == "number":
        numbers = sorted({v for v in map(_number, fields) if v is not None})
        names = tuple(map(class_name, numbers))
    else:
        names = tuple(sorted({t for t in map(_text, fields) if t}))
    ids = {name: index for index, name in enumerate(names)}
    if not labelled:
        ids.setdefault("-1", -1)

    def class_id(field: Any) -> int | None:
        text = _text(field)
        if text not in ids and (number := _integer(field)) is not None:
            text = str(number)  # "01" means class 1
        if text not in ids and (value := _number(field)) is not None:
            text = class_name(value)  # 1.0 means class 1 too
        return ids.get(text)

    return names, class_id


def _label_kind(fields: list[Any]) -> str:
    """Returns "integer" classes, "number" (regression) or "text" classes."""
    integers = sum(_integer(field) is not None for field in fields)
    numbers = sum(_number(field) is not None for field in fields)
    if not fields or numbers < _MOST_NUMBERS * len(fields):
        return "text"
    return "integer" if integers == numbers else "number"


def _integer(field: Any) -> int | None:
    if type(field) is int:
        return None if finite(field) is None else field
    if isinstance(field, str) and _INTEGER.fullmatch(field):
        return int(field)
    return None


def _number(field: Any) -> float | None:
    if type(field) in (int, float):
        return finite(field)
    if isinstance(field, str) and _NUMBER.fullmatch(field):
        return finite(field)
    return None


def _text(field: Any) -> str:
    """Returns a class name; "" also for a fraction, which is a score."""
    return "" if isinstance(field, float) else name_of(field)


def _label_reason(
    field: Any, names: tuple[str, ...] | None, several: bool = False
) -> str:
    if names is None:
        expected = "a finite number"
    else:
        expected = listed(names, 20)
    if several:
        some = f"some of {expected}" if names else "a list of labels"
        return f"{as_lists(field)}; expected {some}"
    if isinstance(field, (list, dict)):
        kind = "list" if isinstance(field, list) else "object"
        return (
            f"the label is a {kind}, {str(field)[:60]}; expected one label for each "
            "text; a list of labels per text needs several=True (--problem_type "
            "multi_label_classification)"
        )
    if field in ("", None):
        return f"the label is empty; expected {expected}"
    return f"label {str(field)[:60]!r} is not known; expected {expected}"
