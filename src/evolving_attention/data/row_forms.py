"""Rows of dicts from common forms of data: tables, columns, names of labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from evolving_attention.data.labels import (
    listed,
    name_classes,
    numbered,
    refuse_missing,
)
from evolving_attention.data.packed import PackedDataset, each
from evolving_attention.errors import ConfigError, InputError


def is_several(dataset: Any) -> bool:
    """Whether ``dataset`` is a dict of data sets, not of columns (texts and labels)."""
    if not isinstance(dataset, Mapping):
        return False
    return not dataset or not all(
        isinstance(values, (list, tuple, np.ndarray))
        and (not len(values) or not hasattr(values[0], "keys"))
        for values in dataset.values()
    )


def sets_of(dataset: Any, prefix: str) -> dict[str, Any]:
    """Returns data sets by the prefix of their results' names.

    It is ``prefix``; for those in a dict ``<prefix>_<name>``.
    """
    if not is_several(dataset):
        return {prefix: dataset}
    return {f"{prefix}_{name}": part for name, part in dataset.items()}


def rows_of(dataset: Any, role: str) -> Any:
    """Returns a data set as a sequence of rows; lists for DataFrames and dicts.

    Args:
        dataset: a data set of any kind.
        role: its role for messages, such as ``train_dataset``.

    Raises:
        ConfigError: ``dataset`` is a dict of data sets.
        InputError: the columns differ in length, or a later row of a list is no dict.
    """
    if type(dataset).__module__.partition(".")[0] == "pandas":
        if not hasattr(dataset, "columns"):
            raise InputError(
                f"Trainer: {role} is a {type(dataset).__name__}, expected a DataFrame "
                "with columns of texts (or input_ids) and labels; pass that"
            )
        return dataset.to_dict("records")
    if not isinstance(dataset, Mapping):
        _refuse_other_rows(dataset, role)
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


def _refuse_other_rows(dataset: Any, role: str) -> None:
    """Refuses rows that are no dicts in a list whose first row is one."""
    if type(dataset) not in (list, tuple):  # runs no user code
        return
    for index, row in enumerate(dataset):
        if hasattr(dataset[0], "keys") and not hasattr(row, "keys"):
            raise InputError(
                f"Trainer: {role}[{index}] is a {type(row).__name__}, expected a dict "
                "with the keys of the first row; convert it, or leave it out"
            )


def column_of(dataset: Any, name: str) -> Any:
    """Returns all values of a column of a data set of any form; None if it has none.

    A row of a list that lacks the column has the value None.
    """
    if isinstance(dataset, PackedDataset):
        return getattr(dataset, name, None)
    if hasattr(dataset, "column"):  # TableDataset
        return dataset.column(name) if name in dataset.column_names else None
    if isinstance(dataset, Mapping) or hasattr(dataset, "columns"):
        return dataset.get(name)
    if hasattr(dataset, "column_names"):  # the datasets library
        return list(dataset[name]) if name in dataset.column_names else None
    is_list = type(dataset) in (list, tuple)  # reading it runs no user code
    some = dataset if is_list or not len(dataset) else [dataset[0]]
    if not any(isinstance(row, Mapping) and name in row for row in some):
        return None
    return [dataset[index].get(name) for index in range(len(dataset))]


def with_numbered_labels(rows: Any, first: Any, model: Any, role: str) -> Any:
    """Returns the rows with numeric labels: a class, or 0 and 1 for each of several.

    Rows whose labels are already numbers are returned unchanged. A training set names
    the classes of a model without names, in sorted order, if it has as many.

    Args:
        rows: rows of dicts.
        first: the first row.
        model: the model; its config knows the class names.
        role: role of the rows for messages, such as ``train_dataset``.

    Raises:
        InputError: the model has no class of that name, or accepts one label per row,
            or numbers; or only some rows of a list have a label.
    """
    some = rows if type(rows) in (list, tuple) else [first]  # runs no user code
    key = next((k for k in ("labels", "label") if any(k in row for row in some)), None)
    if key is None:
        return rows
    _refuse_missing([row.get(key) for row in some], key, role)
    config: Any = getattr(model, "config", None)
    known = dict(getattr(config, "label2id", None) or {})
    classifies = getattr(model, "head", None) == "sequence_classification"
    if getattr(config, "problem_type", None) == "multi_label_classification":
        several = [
            marked(row.get(key), known, f"{role}[{i}]")
            for i, row in enumerate(each(rows))
        ]
        pairs = zip(each(rows), several, strict=True)
        return [{**row, key: labels} for row, labels in pairs]
    if classifies and isinstance(first[key], (list, tuple, set)):
        raise InputError(
            f"Trainer: {role}[0] has the labels {first[key]!s:.60}, expected one "
            "label; for a list of labels per text load the model with problem_type="
            "'multi_label_classification'"
        )
    if not isinstance(first[key], str):
        return rows
    labels = [row.get(key) for row in each(rows)]
    _refuse_missing(labels, key, role)
    found = sorted({*map(str, labels)})
    names = listed([*map(repr, found)])
    if len(known) == 1 or getattr(config, "problem_type", None) == "regression":
        raise InputError(
            f"Trainer: the labels of {role} are text ({names}), expected numbers, "
            "which the model predicts; convert them to numbers"
        )
    if role == "train_dataset" and numbered([*known]) and len(found) == len(known) > 1:
        name_classes(config, found)
        known = config.label2id
    unknown = next((i for i, name in enumerate(labels) if name not in known), None)
    if unknown is not None and not known.keys().isdisjoint(found):
        raise InputError(
            f"Trainer: {role}[{unknown}]: unknown label {labels[unknown]!r}, expected "
            f"one of the model's classes, which are {', '.join(known)}; correct it, or "
            "leave the row out"
        )
    if unknown is not None:
        raise InputError(
            f"Trainer: the labels of {role} are text ({names}), row {unknown} has "
            f"{labels[unknown]!r}, expected classes of the model, which are "
            f"{', '.join(map(repr, known)) or '(none)'}; name them when you load it: "
            f"label2id={ {name: i for i, name in enumerate(found[:8])} } with id2label "
            "the other way round, or number the labels"
        )
    return [{**row, key: known[row[key]]} for row in each(rows)]


def _refuse_missing(labels: list[Any], key: str, role: str) -> None:
    """Refuses missing labels; among texts also nan and NA, which DataFrames hold."""
    if any(isinstance(label, str) for label in labels):
        labels = [None if _is_nan(label) else label for label in labels]
    refuse_missing(labels, key, f"Trainer: {role}[{{}}]")


def _is_nan(label: Any) -> bool:
    nan = isinstance(label, float) and label != label
    return nan or type(label).__name__ == "NAType"


def marked(labels: Any, known: Mapping[str, int], where: str) -> np.ndarray:
    """Converts several labels of a row to int64 [1, L]: 1 for those that hold.

    Args:
        labels: names of classes, or 0 and 1 for each class.
        known: the L classes by name.
        where: the row, for messages.

    Raises:
        InputError: the labels are in neither form.
    """
    names = isinstance(labels, (list, tuple, set)) and all(
        isinstance(one, str) for one in labels
    )
    if names and all(one in known for one in labels):
        row = np.zeros((1, len(known)), np.int64)
        row[0, [known[one] for one in labels]] = 1
        return row
    if not names:
        values = np.asarray(labels)
        values = values.reshape(-1) if values.dtype.kind in "iufb" else values
        if values.shape == (len(known),) and np.isin(values, (0, 1)).all():
            return values.astype(np.int64)[None]
    raise InputError(
        f"{where}: the labels are {labels!s:.60}, expected a list of names "
        f"({', '.join(known)}), or of {len(known)} numbers 0 or 1, one for each; "
        "correct them"
    )
