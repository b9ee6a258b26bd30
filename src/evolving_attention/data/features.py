"""Tokenises a data set once: flat arrays of all rows' ids, read as dicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, overload

import numpy as np

from evolving_attention.data.columns import WEIGHT, column_names, dataset_columns
from evolving_attention.data.labels import class_names, refuse_missing
from evolving_attention.data.packed import PackedRows, each
from evolving_attention.data.row_forms import column_of
from evolving_attention.errors import InputError, ShapeError
from evolving_attention.field_types import check_whole
from evolving_attention.notices import say

LENGTH = 128  # default maximum of tokens per text


class _Tokenizer(Protocol):
    def __call__(self, *texts: Any, **options: Any) -> Mapping[str, Any]: ...


class Features(PackedRows):
    """Token ids of N rows, stored flat.

    Args:
        input_ids: int32 [total], row after row.
        offsets: int64 [N + 1], the start of each row.
        token_type_ids: int32 [total], or None.
        labels: int64 or float32 [N], or None; int64 [N, L] of 0 and 1 if a row may have
            several of L labels.
        label_names: names of the classes by id, or None.
        text_columns: the one or two columns of the texts, or None.
        sample_weight: [N], which the Trainer checks and uses; None: equal weights.

    As a sequence, row i is ``{"input_ids": int32 array, …, "labels": scalar}``.
    """

    tokens = ("input_ids", "token_type_ids")

    def __init__(
        self,
        input_ids: np.ndarray,
        offsets: np.ndarray,
        token_type_ids: np.ndarray | None = None,
        labels: np.ndarray | None = None,
        label_names: tuple[str, ...] | None = None,
        text_columns: tuple[str, ...] | None = None,
        sample_weight: Sequence[Any] | None = None,
    ) -> None:
        self.input_ids = np.asarray(input_ids, dtype=np.int32)
        self.offsets = np.asarray(offsets, dtype=np.int64)
        self.token_type_ids = token_type_ids
        self.labels, self.label_names = labels, label_names
        self.text_columns = text_columns
        self.sample_weight = sample_weight
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

    def take(self, indices: Any) -> Features:
        """Returns these rows as a data set."""
        weights = self.sample_weight
        return Features(
            **self._gathered(indices),
            label_names=self.label_names,
            text_columns=self.text_columns,
            sample_weight=None if weights is None else [weights[i] for i in indices],
        )

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Features: ...
    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(index)


def tokenize_dataset(
    dataset: Any,
    tokenizer: _Tokenizer,
    *,
    text_columns: Sequence[str] | str | None = None,
    label_column: str | None = None,
    max_length: int | None = LENGTH,
    batch_size: int = 2048,
    said: set[str] | None = None,
    truncation: Truncation | None = None,
) -> Features:
    """Tokenise the text of a data set.

    A text that gives no token (empty, or of characters that the tokenizer removes)
    becomes the unknown token: models need one in every row.

    Args:
        dataset: a sequence of dicts (:class:`TableDataset`, a list, a
            ``datasets.Dataset``).
        tokenizer: called with lists of texts, like Hugging Face's.
        text_columns: the one or two columns to read; by default the data set's
            ``text_columns``, else the choice of run_glue, which is logged.
        label_column: column of labels, by default ``label``, else ``labels``; not used
            if the data set has none, or if all are the class -1 (an unlabelled test
            set); scores of -1.0 are labels.
        max_length: longest result; longer texts are truncated, and their number is
            logged; None: the tokenizer's own limit.
        batch_size: rows per call of the tokenizer.
        said: earlier log lines, which are not repeated.
        truncation: counts the truncated texts; then they are not logged here.

    Raises:
        InputError: a column is missing, a value is not text, or a text gives no token
            and the tokenizer has no unknown one (the message names the row).
    """
    check_whole("tokenize_dataset", batch_size=batch_size)
    chosen = dataset_columns(dataset, text_columns, label_column)
    if text_columns is None and not hasattr(dataset, "text_columns"):
        say(f"tokenize_dataset: {chosen}", said)
    cut = Truncation() if truncation is None else truncation
    ids: list[np.ndarray] = []
    types: list[np.ndarray] = []
    lengths: list[int] = []
    for start in range(0, len(dataset), batch_size):
        stop = min(start + batch_size, len(dataset))
        texts = _texts(dataset, chosen.texts, start, stop)
        encoded = tokenizer(
            *texts,
            truncation=True,
            padding=False,
            max_length=max_length,
            return_attention_mask=False,
        )
        rows = _filled(encoded["input_ids"], tokenizer, start)
        cut.add(encoded)
        lengths += map(len, rows)
        ids.append(_flat(rows))
        if "token_type_ids" in encoded:
            types.append(_flat(row or [0] for row in encoded["token_type_ids"]))
    if cut.rows and truncation is None:
        say(f"{_place(dataset)}{cut.told(len(lengths), max(lengths))}", said)
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    empty = np.zeros(0, dtype=np.int32)
    return Features(
        np.concatenate(ids) if ids else empty,
        offsets,
        np.concatenate(types) if types else None,
        _labels(dataset, chosen.label),
        class_names(dataset),
        chosen.texts,
        column_of(dataset, WEIGHT) if chosen.has_weight else None,
    )


class Truncation:
    """Counts the texts that a tokenizer truncated."""

    rows = 0

    def add(self, encoded: Any) -> None:
        """Count a call's truncated texts, for our tokenizers or transformers'."""
        cut = getattr(encoded, "truncated", None)
        if cut is None:
            encodings = getattr(encoded, "encodings", None) or ()
            cut = [bool(encoding.overflowing) for encoding in encodings]
        self.rows += sum(cut)

    def told(self, rows: int, limit: int) -> str:
        """Returns the log line."""
        return (
            f"{self.rows} of {rows} texts were truncated to {limit} tokens; raise "
            "tokenize_dataset(…, max_length=…) (--max_seq_length) to keep more"
        )


def _place(dataset: Any) -> str:
    """Returns the data set's file name as a message prefix, if known."""
    report = getattr(dataset, "report", None)
    return f"{report.file}: " if report is not None else ""


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
                    "expected text in every row; correct it, or leave the column out "
                    "of all rows"
                )
    return columns


def _filled(
    rows: Sequence[Sequence[int]], tokenizer: Any, start: int
) -> list[Sequence[int]]:
    """Returns the ids of rows from ``start`` on; the unknown token for no token.

    Raises:
        InputError: a row has no token, and the tokenizer no unknown one.
    """
    empty = next((i for i, row in enumerate(rows) if not len(row)), None)
    unknown: Any = getattr(tokenizer, "unk_token_id", None)
    if empty is not None and unknown is None:
        raise InputError(
            f"row {start + empty}: its text has no token, and the tokenizer no "
            "unk_token, expected at least one token; leave the row out"
        )
    return [row if len(row) else [unknown] for row in rows]


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
        values = [row.get(name) for row in each(dataset)]
    refuse_missing(values, name)
    labels = np.asarray(values)
    if labels.dtype.kind not in "iuf":
        raise InputError(
            f"labels are {labels.dtype}; expected int (classes) or float (regression)"
        )
    if labels.ndim > 1:  # several per row: [N, L] or [N, 1, L]
        labels = labels.reshape(len(labels), -1)
    if len(labels) and labels.dtype.kind != "f" and (labels == -1).all():
        return None
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        row = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise InputError(f"row {row}: label {labels[row]} is not a finite number")
    return labels.astype(np.float32 if labels.dtype.kind == "f" else np.int64)
