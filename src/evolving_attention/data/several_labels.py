"""Several labels per text: lists in a JSON file, as 0 and 1 for each class."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from evolving_attention.data.labels import name_of

Parse = Callable[[Any], list[int] | int | None]


def label_lists(
    fields: Sequence[Any], known: Sequence[str] | None, labelled: bool
) -> tuple[tuple[str, ...], Parse]:
    """Returns (class names, function from a field to 0 and 1 for each class).

    A field is a list of names, or of 0 and 1 for each class. The second form is assumed
    if all lists contain only 0 and 1 and have the same length, 2 or more. The function
    returns None for other fields, and -1 for a row without labels in a file to predict.

    Args:
        fields: the labels of all rows.
        known: the classes of the training set; None: this file's classes, sorted.
        labelled: whether every row must have labels.
    """
    lists = [field for field in fields if isinstance(field, list)]
    widths = {len(field) for field in lists}
    marks = len(widths) == 1 and max(widths) > 1
    marks = marks and all(_is_mark(value) for field in lists for value in field)
    if known is not None:
        names = tuple(known)
        marks = marks and widths == {len(names)}
    elif marks:
        names = tuple(str(i) for i in range(max(widths)))
    else:
        found = {name_of(value) for field in lists for value in field}
        names = tuple(sorted(found - {""}))
    ids = {name: i for i, name in enumerate(names)}

    def parse(field: Any) -> list[int] | int | None:
        if not labelled and field in (None, "", -1):
            return -1
        if not isinstance(field, list):
            return None
        if marks:
            return [int(value) for value in field]
        chosen_ids = {ids.get(name_of(value), -1) for value in field}
        if -1 in chosen_ids:
            return None
        return [int(i in chosen_ids) for i in range(len(names))]

    return names, parse


def as_lists(field: Any) -> str:
    """Returns why a field cannot be used as a list of labels, for messages."""
    if not isinstance(field, list):
        return f"the label is {str(field)[:60]!r}, not a list of labels"
    for value in field:
        if not name_of(value):
            return (
                f"the labels {str(field)[:60]} contain {value!r:.60}, neither a name "
                "nor a finite number"
            )
    return f"the labels {str(field)[:60]} are not all known"


def chosen(chances: Sequence[float], names: Sequence[str]) -> str:
    """Returns the labels with a probability above 0.5, separated by commas."""
    return ",".join(
        name for name, chance in zip(names, chances, strict=True) if chance > 0.5
    )


def _is_mark(value: Any) -> bool:
    return isinstance(value, (int, float)) and value in (0, 1)
