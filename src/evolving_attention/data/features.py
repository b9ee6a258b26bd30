"""Tokenise a data set once: ids of all rows in flat arrays, seen as rows of dicts."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol, overload

import numpy as np

from evolving_attention.data.collate import Batch
from evolving_attention.errors import ConfigError, InputError, ShapeError

__all__ = ["Features", "tokenize_dataset"]


class _Tokenizer(Protocol):
    def __call__(
        self, text: Any, text_pair: Any = None, **options: Any
    ) -> Mapping[str, Any]: ...


class Features(Sequence[dict[str, Any]]):
    """Token ids of N rows, stored flat.

    Args:
        input_ids: int32 [total], the rows one after another.
        offsets: int64 [N + 1], where each row begins.
        token_type_ids: int32 [total], or None.
        labels: int64 or float32 [N], or None.

    As a sequence, row i is ``{"input_ids": int32 array, …, "labels": scalar}``.
    """

    def __init__(
        self,
        input_ids: np.ndarray,
        offsets: np.ndarray,
        token_type_ids: np.ndarray | None = None,
        labels: np.ndarray | None = None,
    ) -> None:
        self.input_ids = np.asarray(input_ids, dtype=np.int32)
        self.offsets = np.asarray(offsets, dtype=np.int64)
        self.token_type_ids = token_type_ids
        self.labels = labels
        total, rows = len(self.input_ids), len(self.offsets) - 1
        if self.offsets[0] != 0 or self.offsets[-1] != total:
            raise ShapeError(
                f"offsets run from {self.offsets[0]} to {self.offsets[-1]}; expected "
                f"0 to {total}, the number of ids"
            )
        if token_type_ids is not None and len(token_type_ids) != total:
            raise ShapeError(f"{len(token_type_ids)} token_type_ids for {total} ids")
        if labels is not None and len(labels) != rows:
            raise ShapeError(f"{len(labels)} labels for {rows} rows")

    @property
    def lengths(self) -> np.ndarray:
        """Number of tokens of each row: int64 [N]."""
        return np.diff(self.offsets)

    def gather(self, indices: np.ndarray) -> Batch:
        """The packed batch of these rows, as ``collate_packed`` makes it."""
        indices = np.asarray(indices, dtype=np.int64)
        lengths = self.offsets[indices + 1] - self.offsets[indices]
        offsets = np.zeros(len(indices) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        # token j of the batch lies at (its row's start) + (j - the row's offset)
        shift = np.repeat(self.offsets[indices] - offsets[:-1], lengths)
        source = np.arange(offsets[-1]) + shift
        batch = {
            "input_ids": self.input_ids[source].astype(np.int64),
            "sequence_offsets": offsets,
        }
        if self.token_type_ids is not None:
            batch["token_type_ids"] = self.token_type_ids[source].astype(np.int64)
        if self.labels is not None:
            batch["labels"] = self.labels[indices]
        batch["row_ids"] = indices
        return batch

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Features: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            batch = self.gather(np.arange(len(self))[index])
            types = batch.get("token_type_ids")
            return Features(
                batch["input_ids"],
                batch["sequence_offsets"],
                None if types is None else types.astype(np.int32),
                batch.get("labels"),
            )
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"row {position} of {len(self)} rows")
        position %= len(self)
        span = slice(self.offsets[position], self.offsets[position + 1])
        row: dict[str, Any] = {"input_ids": self.input_ids[span]}
        if self.token_type_ids is not None:
            row["token_type_ids"] = self.token_type_ids[span]
        if self.labels is not None:
            row["labels"] = self.labels[position].item()
        return row

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (self[index] for index in range(len(self)))


def tokenize_dataset(
    dataset: Any,
    tokenizer: _Tokenizer,
    *,
    text_columns: Sequence[str] | None = None,
    label_column: str = "label",
    max_length: int | None = 128,
    batch_size: int = 2048,
) -> Features:
    """Tokenise the text of a data set.

    Args:
        dataset: a sequence of dicts (:class:`TableDataset`, a list, a
            ``datasets.Dataset``).
        tokenizer: called with lists of texts as Hugging Face's are.
        text_columns: the one or two columns to read; by default the data set's own
            ``text_columns``, else those run_glue would take.
        label_column: column of labels; left out where the data set has none, or where
            all of them are -1 (an unlabelled test set).
        max_length: longest result, longer texts are truncated; None: the tokenizer's
            own limit.
        batch_size: rows per call of the tokenizer.

    Raises:
        InputError: a column is missing, a text is not text (the message names the row).
    """
    if batch_size < 1:
        raise ConfigError(f"batch_size={batch_size}; expected a number ≥ 1")
    names = text_names(dataset, text_columns, label_column)
    ids: list[np.ndarray] = []
    types: list[np.ndarray] = []
    lengths: list[int] = []
    for start in range(0, len(dataset), batch_size):
        stop = min(start + batch_size, len(dataset))
        texts = _texts(dataset, names, start, stop)
        encoded = tokenizer(
            *texts,
            truncation=True,
            padding=False,
            max_length=max_length,
            return_attention_mask=False,
        )
        rows = encoded["input_ids"]
        lengths += map(len, rows)
        ids.append(_flat(rows))
        if "token_type_ids" in encoded:
            types.append(_flat(encoded["token_type_ids"]))
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    empty = np.zeros(0, dtype=np.int32)
    return Features(
        np.concatenate(ids) if ids else empty,
        offsets,
        np.concatenate(types) if types else None,
        _labels(dataset, label_column),
    )


def text_names(
    dataset: Any, text_columns: Sequence[str] | None, label_column: str = "label"
) -> tuple[str, ...]:
    """The text columns: as given, as the data set says, or as run_glue would guess."""
    known = column_names(dataset)
    if text_columns is None:
        text_columns = getattr(dataset, "text_columns", None)
    if text_columns is None:
        text_columns = guess_text_columns([n for n in known if n != label_column])
    names = tuple(text_columns)
    missing = [name for name in names if name not in known]
    if missing or len(names) not in (1, 2):
        raise InputError(
            f"text columns {', '.join(names) or '(none)'}: expected one or two columns "
            f"of the data set, which has {', '.join(known) or 'none'}"
        )
    return names


def guess_text_columns(names: Sequence[str]) -> tuple[str, ...]:
    """run_glue's rule: sentence1 and sentence2, else the first two, else the first."""
    if "sentence1" in names and "sentence2" in names:
        return ("sentence1", "sentence2")
    usable = [name for name in names if name not in ("idx", "index", "id")]
    return tuple(usable[:2])


def column_names(dataset: Any) -> list[str]:
    """Columns of a data set of any kind."""
    names = getattr(dataset, "column_names", None)
    if names is not None:
        return list(names)
    if not len(dataset):
        return []
    first = dataset[0]
    if not isinstance(first, Mapping):
        raise InputError(
            f"row 0 is {type(first).__name__}; expected a data set whose rows are dicts"
        )
    return list(first)


def _texts(
    dataset: Any, names: Sequence[str], start: int, stop: int
) -> list[list[str]]:
    if hasattr(dataset, "column_names"):
        part = dataset[start:stop]
        columns = [
            part.column(name) if hasattr(part, "text_columns") else list(part[name])
            for name in names
        ]
    else:
        rows = [dataset[index] for index in range(start, stop)]
        columns = [[row.get(name) for row in rows] for name in names]
    for name, values in zip(names, columns, strict=True):
        for index, value in enumerate(values):
            if not isinstance(value, str):
                raise InputError(
                    f"row {start + index}: {name!r} is {type(value).__name__}; "
                    "expected text"
                )
    return columns


def _flat(rows: Iterable[Sequence[int]]) -> np.ndarray:
    return np.array([index for row in rows for index in row], dtype=np.int32)


def _labels(dataset: Any, name: str) -> np.ndarray | None:
    if name not in column_names(dataset) or not getattr(dataset, "has_labels", True):
        return None
    if hasattr(dataset, "column"):
        values = dataset.column(name)
    elif hasattr(dataset, "column_names"):
        values = list(dataset[name])
    else:
        values = [row.get(name) for row in dataset]
    labels = np.asarray(values)
    if labels.dtype.kind not in "iuf":
        raise InputError(
            f"labels are {labels.dtype}; expected int (classes) or float (regression)"
        )
    if len(labels) and (labels == -1).all():
        return None
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        row = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise InputError(f"row {row}: label {labels[row]} is not a finite number")
    return labels.astype(np.float32 if labels.dtype.kind == "f" else np.int64)
