"""Rows whose classes are numbered as the model's, where both sides have names."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from evolving_attention.data.labels import class_names, listed, unnamed
from evolving_attention.data.packed import PackedDataset, PackedRows
from evolving_attention.errors import ConfigError

_HEADS = ("sequence_classification", "image_classification")
_TABLE = ("text_columns", "has_labels", "report")


def numbered_as_model(rows: Any, dataset: Any, model: Any, role: str) -> Any:
    """Returns rows whose numeric labels count the classes in the model's order.

    The names in the data and in the model are compared without regard to case; if one
    side has none, or only default ones, the rows are returned unchanged.

    Args:
        rows: the rows of the data set.
        dataset: as the caller gave it; it knows the names of its classes.
        model: the model; its config knows the names of its classes.
        role: role of the rows for messages, such as ``train_dataset``.

    Raises:
        ConfigError: the data has a class that the model lacks.
    """
    config: Any = getattr(model, "config", None)
    known = list((getattr(config, "id2label", None) or {}).values())
    names = class_names(dataset)
    if getattr(model, "head", None) not in _HEADS or len(known) < 2:
        return rows
    if not names or unnamed(known) or unnamed(names):
        return rows
    found = {name.lower(): i for i, name in enumerate(known)}
    ids = [found.get(name.lower(), -1) for name in names]
    several = getattr(config, "problem_type", None) == "multi_label_classification"
    fit = -1 not in ids and len({*ids}) == len(ids)
    fit = fit and not (several and len(ids) < len(known))
    if fit and ids == [*range(len(ids))]:
        return rows
    if not fit or (
        isinstance(rows, PackedDataset) and not isinstance(rows, PackedRows)
    ):
        raise ConfigError(
            f"Trainer: the classes of {role} are {listed(names)}, those of the model "
            f"{listed(known)}, expected the same names{' in this order' * fit}; rename "
            "those of the data, or load the model with id2label="
            f"{dict(enumerate(names[:8]))}"
        )
    if not isinstance(rows, PackedRows):
        return _Rows(rows, ids, several)
    if rows.labels is None:
        return rows
    rows = copy.copy(rows)
    rows.labels = _renumbered(rows.labels, ids, several)
    return rows


class _Rows(Sequence[Any]):
    """Rows of dicts with renumbered labels, and what tokenising asks a table."""

    def __init__(self, rows: Any, ids: list[int], several: bool) -> None:
        self.rows, self._ids, self._several = rows, ids, several

    def __getattr__(self, name: str) -> Any:
        if name in _TABLE:
            return getattr(self.rows, name)
        raise AttributeError(name)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        row = self.rows[index]
        key = "labels" if "labels" in row else "label"
        label = np.asarray(row.get(key))
        if label.dtype.kind not in "iuf":  # missing, or names
            return row
        label = _renumbered(label, self._ids, self._several)
        return {**row, key: label if label.ndim else label.item()}


def _renumbered(labels: np.ndarray, ids: list[int], several: bool) -> np.ndarray:
    """Replaces class i by ``ids[i]``; for several, moves column i of 0 and 1 there.

    Values that are no class, such as -1, stay.
    """
    if several:
        same = labels.ndim and labels.shape[-1] == len(ids)
        return labels[..., np.argsort(ids)] if same else labels
    if labels.dtype.kind == "f":
        return labels
    inside = (labels >= 0) & (labels < len(ids))
    return np.where(inside, np.asarray(ids)[np.where(inside, labels, 0)], labels)
