"""Packed batches: what the model takes of them, their rows, and cutting them up.

A batch is a dict of NumPy arrays: ``input_ids`` [total] and other token arrays
[total], or ``values`` [total, channels] of series; ``sequence_offsets`` [B+1],
``labels`` [B] or [total], ``row_ids`` [B].
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise
from typing import Any

import numpy as np

__all__ = [
    "close",
    "groups_of",
    "inputs_of",
    "row_count",
    "row_ids",
    "single_row",
    "slice_rows",
    "split_rows",
    "token_count",
]

Batch = dict[str, Any]
_BY_TOKEN = ("input_ids", "values", "masked")  # and any other array as long as they


def groups_of(batches: Any, size: int) -> Iterator[list[Batch]]:
    """Lists of ``size`` batches; the last one may be shorter."""
    iterator = iter(batches)
    try:
        while group := list(islice(iterator, size)):
            yield group
    finally:
        close(iterator)


def close(iterator: Any) -> None:
    """End a generator now: a traceback would keep its background thread alive."""
    if hasattr(iterator, "close"):
        iterator.close()


def row_count(batch: Batch) -> int:
    """Number of sequences B."""
    if "sequence_offsets" in batch:
        return len(batch["sequence_offsets"]) - 1
    return len(batch["input_ids"])


def token_count(batch: Batch) -> int:
    """Number of tokens or time steps that are not padding."""
    if "sequence_offsets" in batch:
        return int(batch["sequence_offsets"][-1])
    if "attention_mask" not in batch:
        return int(np.size(batch["input_ids"]))
    return int(np.sum(batch["attention_mask"]))


def row_ids(batch: Batch) -> np.ndarray:
    """Index in the data set of every row; the place in the batch where unknown."""
    if "row_ids" in batch:
        return np.asarray(batch["row_ids"])
    return np.arange(row_count(batch))


def inputs_of(batch: Batch) -> Batch:
    """The part of a batch that goes into the model."""
    return {key: value for key, value in batch.items() if key != "row_ids"}


def slice_rows(batch: Batch, start: int, stop: int) -> Batch:
    """Rows start … stop−1 as a batch of their own."""
    rows = row_count(batch)
    if "sequence_offsets" not in batch:
        return {key: value[start:stop] for key, value in batch.items()}
    offsets = np.asarray(batch["sequence_offsets"])
    first, last, total = int(offsets[start]), int(offsets[stop]), int(offsets[-1])
    part = {"sequence_offsets": offsets[start : stop + 1] - first}
    for key, value in batch.items():
        if key == "sequence_offsets":
            continue
        by_token = key not in ("row_ids", "next_sentence_label") and (
            len(value) == total and (total != rows or key in _BY_TOKEN)
        )
        part[key] = value[first:last] if by_token else value[start:stop]
    return part


def single_row(batch: Batch, row: int) -> Batch:
    """One row as a batch of its own."""
    return slice_rows(batch, row, row + 1)


def split_rows(batch: Batch, parts: int) -> list[Batch]:
    """The batch cut into at most ``parts`` nearly equal batches, none empty."""
    rows = row_count(batch)
    if parts <= 1 or rows <= 1:
        return [batch]
    parts = min(parts, rows)
    bounds = [rows * i // parts for i in range(parts + 1)]
    return [slice_rows(batch, a, b) for a, b in pairwise(bounds)]
