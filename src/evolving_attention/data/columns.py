"""Chooses the text columns and the label column of a data set.

The caller may name them. Otherwise the label is ``label``, else ``labels``. The text is
``sentence1`` and ``sentence2``, else the first two other columns, else the only one
(run_glue's rule). Row numbers, numeric columns and further label columns are never
text. A column ``sample_weight`` weights training rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from evolving_attention.data.labels import listed
from evolving_attention.data.packed import each
from evolving_attention.data.records import parses
from evolving_attention.errors import InputError

SAMPLE = 200  # number of rows inspected to distinguish numbers from text

Sample = Callable[[Sequence[str]], Mapping[str, Sequence[Any]]]
WEIGHT = "sample_weight"
_PAIR = ("sentence1", "sentence2")
_INDEX = re.compile(  # "" and "Unnamed: 0" are pandas' index
    r"|unnamed: \d+|__index_level_\d+__|id|idx|index|uid|uuid|guid", re.IGNORECASE
)
_LABEL_LIKE = ("stars", "score", "rating", "target", "class", "grade", "y")
_MOSTLY = 0.9  # from this share of numbers on, a column is not text


class Columns(NamedTuple):
    """The chosen one or two text columns in order, the label's name, all other columns.

    ``has_label``: whether a column of the label's name exists; ``has_weight``: whether
    the column ``sample_weight`` is used.
    """

    texts: tuple[str, ...]
    label: str
    has_label: bool
    others: tuple[str, ...]
    has_weight: bool = False

    def __str__(self) -> str:
        unused = f", not used {_quoted(self.others)}" if self.others else ""
        label = f"label '{self.label}'" if self.has_label else "no label"
        label += f", weights '{WEIGHT}'" if self.has_weight else ""
        return (
            f"text {_quoted(self.texts)}, {label}{unused}; text_columns= "
            "and label_column= choose others (--text_column_names, --label_column_name)"
        )


def choose_columns(
    names: Sequence[str],
    sample: Sample,
    text_columns: Sequence[str] | str | None = None,
    label_column: str | None = None,
    weighted: bool = True,
) -> Columns:
    """Chooses by name, and by value if the names do not decide.

    Args:
        names: all columns.
        sample: maps each column name to some values of the column.
        text_columns: the text columns, if the caller names them.
        label_column: the label's column, if the caller names it.
        weighted: whether a column ``sample_weight`` is used.
    """
    label = label_column
    if label is None:
        label = "labels" if "labels" in names and "label" not in names else "label"
    if isinstance(text_columns, str):
        texts: tuple[str, ...] = (text_columns,)
    elif text_columns is not None:
        texts = tuple(text_columns)
    elif set(_PAIR) <= set(names):
        texts = _PAIR
    else:
        rest = [name for name in names if name not in (label, WEIGHT)]
        texts = _guess(rest, label, sample)
    used = {*texts, label}
    has_weight = weighted and WEIGHT in names and WEIGHT not in used
    used |= {WEIGHT} if has_weight else set()
    others = tuple(name for name in names if name not in used)
    return Columns(texts, label, label in names, others, has_weight)


def dataset_columns(
    dataset: Any,
    text_columns: Sequence[str] | str | None = None,
    label_column: str | None = None,
) -> Columns:
    """Returns the columns of a data set of any kind.

    Raises:
        InputError: there are not one or two text columns, or a column is missing.
    """
    known = column_names(dataset)
    if text_columns is None:
        text_columns = getattr(dataset, "text_columns", None)

    def sample(names: Sequence[str]) -> dict[str, list[Any]]:
        rows = [dataset[i] for i in range(min(SAMPLE, len(dataset)))]
        return {name: [row.get(name) for row in rows] for name in names}

    chosen = choose_columns(known, sample, text_columns, label_column)
    missing = [name for name in chosen.texts if name not in known]
    if missing or len(chosen.texts) not in (1, 2):
        raise InputError(
            f"text columns {', '.join(chosen.texts) or '(none)'}: expected one or two "
            f"columns of the data set, which has {', '.join(known) or 'none'}; name "
            "them by text_columns= (--text_column_names)"
        )
    return chosen


def column_names(dataset: Any) -> list[str]:
    """Returns the columns of a data set of any kind: the union over all rows."""
    names = getattr(dataset, "column_names", None)
    if names is not None:
        return list(names)
    if not len(dataset):
        return []
    found: dict[str, None] = {}
    for index, row in enumerate(each(dataset)):
        if not isinstance(row, Mapping):
            raise InputError(
                f"row {index} is {type(row).__name__}; expected a data set whose rows "
                "are dicts"
            )
        found |= dict.fromkeys(row)
    return list(found)


def _guess(names: Sequence[str], label: str, sample: Sample) -> tuple[str, ...]:
    """Returns the first two text-like columns; if there are none, numeric ones."""
    usable = [
        name
        for name in names
        if not _INDEX.fullmatch(name) and not _named_like(name, label)
    ]
    values = sample(usable) if usable else {}
    texts = [name for name in usable if not _is_numeric(values[name])]
    if not texts:
        texts = [
            name
            for name in usable
            if name.lower() not in _LABEL_LIKE
            and all(isinstance(value, str) for value in values[name])
        ]
    return tuple(texts[:2])


def _named_like(name: str, label: str) -> bool:
    """Whether a column is named after the label: labels, label_text, gold_label."""
    name, label = name.lower(), label.lower()
    return "label" in name or name == f"{label}s" or name.startswith(f"{label}_")


def _is_numeric(values: Sequence[Any]) -> bool:
    """Whether values are not text: other types, or numbers written as text."""
    filled = [v for v in values if v is not None and str(v).strip()]
    numbers = sum(not isinstance(v, str) or parses(v) for v in filled)
    return bool(filled) and numbers >= _MOSTLY * len(filled)


def _quoted(names: Sequence[str]) -> str:
    return listed([f"'{name}'" for name in names])
