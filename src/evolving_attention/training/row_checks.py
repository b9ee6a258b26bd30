"""Checks token ids and labels of rows against the model, before it is trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from evolving_attention.data.collate import IGNORED, LABELS
from evolving_attention.data.packed import PackedDataset, PackedRows, each
from evolving_attention.errors import InputError

_OPTIONS = {"input_ids": "vocab_size", "token_type_ids": "type_vocab_size"}
_CLASSIFIER = "classification"  # the end of the heads of classifiers
_LANGUAGE = ("masked_lm", "pretraining")
PAIRS = "seq2seq_lm"  # head of models of pairs, with a vocabulary of each side
Limits = Mapping[str, tuple[int, str]]


def limits_of(model: Any, own_loss: bool) -> Limits:
    """Maps each checked field to its number of values and the option that sets it.

    Args:
        model: the model.
        own_loss: whether its own loss reads the labels.
    """
    config, head = getattr(model, "config", None), str(getattr(model, "head", ""))
    options = {} if head == PAIRS else dict(_OPTIONS)
    scores = getattr(config, "num_labels", 1) == 1
    several = getattr(config, "problem_type", None) == "multi_label_classification"
    if own_loss and head in _LANGUAGE:
        options |= dict.fromkeys(LABELS, "vocab_size")
    elif own_loss and head.endswith(_CLASSIFIER) and not scores and not several:
        options |= dict.fromkeys(LABELS, "num_labels")
    sizes = {name: getattr(config, option, None) for name, option in options.items()}
    return {n: (size, options[n]) for n, size in sizes.items() if type(size) is int}


def checked(rows: Any, role: str, limits: Limits) -> Any:
    """Returns rows whose token ids and labels are in range.

    Packed rows and lists are checked at once, other sequences when they are read.

    Args:
        rows: rows with ``input_ids``; a data set that builds its own batches is only
            checked if it is packed.
        role: role of the rows for messages, such as ``train_dataset``.
        limits: the result of :func:`limits_of`.

    Raises:
        InputError: a value is out of range; names the row.
    """
    if isinstance(rows, PackedRows):
        _check_arrays(rows, role, limits)
    elif type(rows) in (list, tuple):
        for index, row in enumerate(rows):
            _check_row(row, f"{role}[{index}]", limits)
    elif not isinstance(rows, PackedDataset):
        return _Checked(rows, role, limits)
    return rows


class _Checked(Sequence[Any]):
    """Rows that are checked when they are read; all else is the data set's."""

    def __init__(self, rows: Any, role: str, limits: Limits) -> None:
        self.rows, self._role, self._limits = rows, role, limits

    def __getattr__(self, name: str) -> Any:
        if name == "rows":  # in a copy that is not filled yet
            raise AttributeError(name)
        return getattr(self.rows, name)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        row = self.rows[index]
        if isinstance(index, int):
            _check_row(row, f"{self._role}[{index}]", self._limits)
        return row

    def __iter__(self) -> Iterator[Any]:
        for index, row in enumerate(each(self.rows)):
            _check_row(row, f"{self._role}[{index}]", self._limits)
            yield row


def _check_arrays(rows: PackedRows, role: str, limits: Limits) -> None:
    """Checks all rows at once."""
    for name in (*rows.tokens, "labels"):
        values, limit = getattr(rows, name, None), limits.get(name)
        if values is None or limit is None or _in_range(values, limit[0]):
            continue
        for index in np.flatnonzero(_wrong(values, name, limit[0])):
            row = index
            if name != "labels":
                row = np.searchsorted(rows.offsets, index, side="right") - 1
            _check_row(rows[int(row)], f"{role}[{row}]", limits)


def _check_row(row: Any, place: str, limits: Limits) -> None:
    """Checks one row; values of other forms are left to the collator."""
    if not hasattr(row, "keys"):
        return
    for name, (size, option) in limits.items():
        if name not in row or (name == "label" and "labels" in row):
            continue
        try:
            values = np.asarray(row[name])
        except ValueError:  # lists of different lengths
            continue
        if _in_range(values, size):
            continue
        wrong = _wrong(values, name, size)
        mask = row.get("attention_mask")
        if mask is not None and np.shape(mask) == values.shape:
            wrong &= np.asarray(mask) != 0
        if not wrong.any():
            continue
        first = tuple(np.argwhere(wrong)[0])
        at = "".join(f"[{i}]" for i in first)
        remedy = "tokenise the texts with the tokenizer of the model"
        if name in LABELS:
            remedy = "correct it, or leave the row out"
        raise InputError(
            f"Trainer: {place}: {name}{at} is {values[first]}, expected 0 to "
            f"{size - 1} (the model's {option} is {size}); {remedy}"
        )


def _in_range(values: np.ndarray, size: int) -> bool:
    """Whether all values are from 0 to size - 1, or no numbers."""
    if values.dtype.kind not in "iuf" or not values.size:
        return True
    least, most = values.min(), values.max()
    return bool(values.dtype.kind != "f" and least >= 0 and most < size)


def _wrong(values: np.ndarray, name: str, size: int) -> np.ndarray:
    """Marks the values that are no integers in range; labels may be ignored ones."""
    if values.dtype.kind == "f":
        return np.ones(values.shape, bool)
    wrong = (values < 0) | (values >= size)
    return wrong & (values != IGNORED) if name in LABELS else wrong
