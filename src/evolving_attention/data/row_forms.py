"""Rows of dicts from the forms people have their data in: tables, columns, names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evolving_attention.errors import ConfigError, InputError

__all__ = ["is_several", "rows_of", "with_numbered_labels"]


def is_several(dataset: Any) -> bool:
    """Whether it is a dict of data sets, not of columns such as texts and labels."""
    if not isinstance(dataset, Mapping):
        return False
    return not dataset or not all(
        isinstance(values, (list, tuple, np.ndarray))
        and (not len(values) or not hasattr(values[0], "keys"))
        for values in dataset.values()
    )


def rows_of(dataset: Any, role: str) -> Any:
    """A data set as a sequence of rows; DataFrames and dicts of columns become lists.

    Args:
        dataset: of any kind.
        role: ``train_dataset`` or so, for messages.

    Raises:
        ConfigError: it is a dict of data sets.
        InputError: its columns differ in length.
    """
    if type(dataset).__module__.partition(".")[0] == "pandas":
        if not hasattr(dataset, "columns"):
            raise InputError(
                f"Trainer: {role} is a {type(dataset).__name__}, expected a DataFrame "
                "with columns of texts (or input_ids) and labels; pass that"
            )
        return dataset.to_dict("records")
    if not isinstance(dataset, Mapping):
        return dataset
    if is_several(dataset):
        names = ", ".join(map(str, dataset))
        first = next(iter(dataset), "train")
        raise ConfigError(
            f"Trainer: {role} is a dict of the data sets {names or '(none)'}, expected "
            f"one data set; pass one of them, such as data[{first!r}]"
        )
    lengths = {name: len(values) for name, values in dataset.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise InputError(
            f"Trainer: the columns of {role} differ in length ({shown}), expected one "
            "value for each row in every column; correct them"
        )
    return [
        dict(zip(dataset, values, strict=True))
        for values in zip(*dataset.values(), strict=True)
    ]


def with_numbered_labels(
    rows: Any, first: Any, label2id: Mapping[str, int] | None, role: str
) -> Any:
    """The rows with the numbers of classes in the place of their names.

    Rows whose labels are no text are returned as they are.

    Args:
        rows: of dicts.
        first: the first of them.
        label2id: the classes of the model, by name.
        role: ``train_dataset`` or so, for messages.

    Raises:
        InputError: the model has no class of that name.
    """
    key = "labels" if "labels" in first else "label"
    if key not in first or not isinstance(first[key], str):
        return rows
    known = dict(label2id or {})
    unknown = next((i for i, row in enumerate(rows) if row.get(key) not in known), None)
    if unknown is not None:
        found = sorted({str(row.get(key)) for row in rows})
        names = ", ".join(map(repr, found[:8])) + (", …" if len(found) > 8 else "")
        raise InputError(
            f"Trainer: the labels of {role} are text ({names}), row {unknown} has "
            f"{rows[unknown].get(key)!r}, expected classes of the model, which are "
            f"{', '.join(map(repr, known)) or '(none)'}; name them when you load it: "
            f"label2id={ {name: i for i, name in enumerate(found[:8])} } with id2label "
            "the other way round, or number the labels"
        )
    return [{**row, key: known[row[key]]} for row in rows]
