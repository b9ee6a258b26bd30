"""Your own data: CSV, TSV and JSON files for --train_file and its companions.

The rules are run_glue's: ``label`` is the label column, ``sentence1`` and
``sentence2`` (else the first two other columns, else the only one) are the text, float
labels mean regression, any other values are classes in sorted order. Rows are checked
as strictly as GLUE's.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evolving_attention.data.features import guess_text_columns
from evolving_attention.data.records import read_names, read_records, texts_are_good
from evolving_attention.data.report import RowCollector
from evolving_attention.data.table import TableDataset
from evolving_attention.errors import ConfigError

__all__ = ["load_file"]

_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_MOST_NUMBERS = 0.9  # from this share on, a label that is no number is a mistake


class _Row(NamedTuple):
    line: int
    column: int
    texts: Sequence[str]
    label: Any
    index: int


def load_file(
    path: str | Path,
    *,
    like: TableDataset | None = None,
    text_columns: Sequence[str] | None = None,
    label_column: str = "label",
    labelled: bool = True,
    bad_rows: str = "raise",
) -> TableDataset:
    """Read a data set from a .csv, .tsv, .jsonl or .json file.

    Args:
        path: the file; CSV and TSV begin with a header line.
        like: the training set, whose text columns and labels this file must share.
        text_columns: the one or two columns a model reads, if not by run_glue's rule.
        label_column: name of the label column.
        labelled: False for a file to predict: labels may be missing or -1.
        bad_rows: ``"raise"``, ``"skip"`` or ``"report"``.

    Returns:
        Rows ``{text columns, "label", "idx"}``; ``label_names`` are the classes, None
        for regression.

    Raises:
        DataError: the file is unusable or a row is bad (file, line, column, reason).
        ConfigError: the file type or an option is not known.

    Example::

        train = load_file("train.csv")
        dev = load_file("dev.csv", like=train)
    """
    path = Path(path)
    collector = RowCollector(str(path), bad_rows)
    names = read_names(path, collector)
    if text_columns is None and like is not None:
        text_columns = like.text_columns
    if text_columns is None:
        text_columns = guess_text_columns([n for n in names if n != label_column])
    if len(text_columns) not in (1, 2):
        raise ConfigError(
            f"{path}: {len(text_columns)} text columns; expected one or two besides "
            f"{label_column!r}, the file has {', '.join(names)}"
        )
    has_labels = labelled or label_column in names
    wanted = (*text_columns, *((label_column,) if has_labels else ()))
    rows = []
    for record in read_records(path, wanted, collector):
        texts = len(text_columns)
        if texts_are_good(record, texts, collector, empty=not labelled):
            values = record.values
            label = values[texts] if has_labels else -1
            column = record.place(texts) if has_labels else 1
            rows.append(_Row(record.line, column, values[:texts], label, record.index))
    label_names, parse = _label_rule(rows, like, labelled)
    labels, used = [], []
    for row in rows:
        value = parse(row.label)
        if value is None:
            reason = _label_reason(row.label, label_names)
            collector.reject(row.line, row.column, reason)
            continue
        collector.use()
        labels.append(value)
        used.append(row)
    collector.report.rejected.sort(key=lambda r: r.line)
    report = collector.finish()
    if label_names is not None and len(label_names) == 1 and like is None:
        report.notes.append(f"all rows have the label {label_names[0]!r}")
    columns = {n: [row.texts[i] for row in used] for i, n in enumerate(text_columns)}
    return TableDataset(
        {**columns, "label": labels, "idx": [row.index for row in used]},
        text_columns=text_columns,
        label_names=label_names,
        has_labels=has_labels and any(value != -1 for value in labels),
        report=report,
    )


def _label_rule(
    rows: list[_Row], like: TableDataset | None, labelled: bool
) -> tuple[tuple[str, ...] | None, Any]:
    """(class names or None for regression, function from a field to a label)."""
    fields = [row.label for row in rows if row.label not in ("", None)]
    if not labelled:
        fields = [field for field in fields if str(field) != "-1"]
    if like is not None:
        kind = "number" if like.is_regression else "text"
    else:
        kind = _label_kind(fields)
    if kind == "number":

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
    else:
        names = tuple(sorted({t for t in map(_text, fields) if t}))
    ids = {name: index for index, name in enumerate(names)}
    if not labelled:
        ids.setdefault("-1", -1)

    def class_id(field: Any) -> int | None:
        text = _text(field)
        if text not in ids and (number := _integer(field)) is not None:
            text = str(number)  # "01" means class 1
        return ids.get(text)

    return names, class_id


def _label_kind(fields: list[Any]) -> str:
    """ "integer" classes, "number" (regression) or "text" classes."""
    integers = sum(_integer(field) is not None for field in fields)
    numbers = sum(_number(field) is not None for field in fields)
    if not fields or numbers < _MOST_NUMBERS * len(fields):
        return "text"
    return "integer" if integers == numbers else "number"


def _integer(field: Any) -> int | None:
    if type(field) is int:
        return field
    if isinstance(field, str) and _INTEGER.fullmatch(field):
        return int(field)
    return None


def _number(field: Any) -> float | None:
    if type(field) in (int, float):
        return float(field) if math.isfinite(field) else None
    if isinstance(field, str) and _NUMBER.fullmatch(field):
        value = float(field)
        return value if math.isfinite(value) else None
    return None


def _text(field: Any) -> str:
    """Name of a class: the text itself, or a JSON value's spelling; "" if neither."""
    if isinstance(field, str):
        return field
    if isinstance(field, bool):
        return str(field).lower()
    return str(field) if isinstance(field, int) else ""


def _label_reason(field: Any, names: tuple[str, ...] | None) -> str:
    if names is None:
        expected = "a finite number"
    else:
        expected = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
    if field in ("", None):
        return f"the label is empty; expected {expected}"
    return f"label {str(field)[:60]!r} is not known; expected {expected}"
