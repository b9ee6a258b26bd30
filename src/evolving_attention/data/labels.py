"""Class names: the labels of a task, a data set or a trained model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evolving_attention.data.records import finite
from evolving_attention.errors import InputError

_CLASSIFIER = "ForSequenceClassification"
_NUMBERED = re.compile(r"LABEL_\d+")


class Labelled:
    """Something with ``label_names``: class names by id, or None for regression."""

    label_names: tuple[str, ...] | None

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers to predict rather than classes."""
        return self.label_names is None

    @property
    def num_labels(self) -> int:
        """Number of classes; 1 for regression."""
        return 1 if self.label_names is None else len(self.label_names)


@dataclass(frozen=True)
class KnownLabels(Labelled):
    """The labels of a trained model, used when no training set defines them.

    ``text_columns`` are the columns that it was trained on, None if unknown; files need
    not have them.
    """

    label_names: tuple[str, ...] | None
    text_columns: Sequence[str] | None = None
    label_column: str | None = None
    problem_type: str | None = None


def known_labels(config: Mapping[str, Any]) -> KnownLabels | None:
    """Returns the labels in a trained model's config.json; None if it has none.

    Classes without given names, ``LABEL_0``, are named by their number: ``0``.
    """
    labels, classes = config.get("id2label"), config.get("architectures")
    if not isinstance(labels, Mapping) or not labels:
        return None
    if classes and not any(str(name).endswith(_CLASSIFIER) for name in classes):
        return None  # a model without classes; every config has labels by default
    texts = config.get("text_columns")
    if len(labels) == 1 or config.get("problem_type") == "regression":
        return KnownLabels(None, texts, problem_type="regression")
    names = [str(labels[key]) for key in sorted(labels, key=int)]
    if numbered(names):
        names = [str(i) for i in range(len(names))]
    return KnownLabels(tuple(names), texts, problem_type=config.get("problem_type"))


def class_name(value: Any) -> str:
    """Returns a label as a class name; 1.0 is 1."""
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def name_of(field: Any) -> str:
    """Returns the class name that a JSON value spells; "" if it is no label."""
    if isinstance(field, str):
        return field
    if isinstance(field, bool):
        return str(field).lower()
    is_number = isinstance(field, (int, float)) and finite(field) is not None
    return class_name(field) if is_number else ""


def listed(names: Sequence[str], most: int = 8) -> str:
    """Returns the first names for a message; an ellipsis stands for the others."""
    return ", ".join(names[:most]) + (", …" if len(names) > most else "")


def numbered(names: Sequence[str]) -> bool:
    """Whether classes have a config's default names: LABEL_0, LABEL_1, …"""
    return all(_NUMBERED.fullmatch(name) for name in names)


def unnamed(names: Sequence[str]) -> bool:
    """Whether the names only count the classes: LABEL_0, LABEL_1, … or 0, 1, …"""
    return numbered(names) or list(names) == [str(i) for i in range(len(names))]


def name_classes(config: Any, names: Sequence[str]) -> None:
    """Gives a model's config the names of its classes, in the order of their ids."""
    config.id2label = dict(enumerate(names))
    config.label2id = {name: i for i, name in enumerate(names)}


def class_names(dataset: Any) -> tuple[str, ...] | None:
    """Returns the class names of a data set of any kind, by id; None if it has none."""
    names = getattr(dataset, "label_names", None)
    features = getattr(dataset, "features", None)
    if names is None and isinstance(features, Mapping):  # a Hub data set
        feature = features.get("labels", features.get("label"))
        names = getattr(feature, "names", None)
    return tuple(map(str, names)) if isinstance(names, (list, tuple)) else None


def refuse_missing(labels: Sequence[Any], name: str, place: str = "row {}") -> None:
    """Refuse labels if one of them is None.

    Raises:
        InputError: a label is None; names its row.
    """
    row = next((i for i, label in enumerate(labels) if label is None), None)
    if row is not None:
        raise InputError(
            f"{place.format(row)}: {name!r} is missing, expected a label in every row, "
            "or in none; give it one, or leave the row out"
        )
