"""Operations on batches: model inputs, rows, and splitting into smaller batches.

A batch is a :class:`~evolving_attention.data.packed.Batch`, or a dict of arrays from a
user's collator: packed, with ``sequence_offsets``, or one entry per row in each.
"""

from __future__ import annotations

import copy
from collections.abc import Generator, Iterable
from itertools import islice, pairwise
from typing import Any

import numpy as np

from evolving_attention.data.collate import IGNORED
from evolving_attention.data.packed import SPAN, TARGETS, tokens_of
from evolving_attention.device_names import host_array

Batch = dict[str, Any]


def groups_of(
    batches: Iterable[Batch | None], size: int
) -> Generator[list[Batch | None], None, None]:
    """Yields lists of ``size`` batches; the last one may be shorter."""
    iterator = iter(batches)
    try:
        while group := list(islice(iterator, size)):
            yield group
    finally:
        close(iterator)


def close(iterator: Any) -> None:
    """Closes a generator now: a traceback would keep its background thread alive."""
    if hasattr(iterator, "close"):
        iterator.close()


def row_count(batch: Batch) -> int:
    """Number of sequences B."""
    if "sequence_offsets" in batch:
        return len(batch["sequence_offsets"]) - 1
    first = next(iter(batch.values()))  # every array has one row per sequence
    return len(batch.get("input_ids", first))


def output_offsets(batch: Batch) -> np.ndarray:
    """Returns row offsets in per-token outputs: the target's, if there is one."""
    name = "decoder_sequence_offsets"
    return np.asarray(batch[name if name in batch else "sequence_offsets"])


def target_count(batch: Batch) -> int:
    """Number of targets over which the loss of a batch is a mean; 0: it has none.

    The starts and the ends of answers that are in their sequences are targets. The loss
    is the mean of two means, so without any start, or any end, it has none.
    """
    if "masked" in batch:
        return int(np.count_nonzero(host_array(batch["masked"])))
    if SPAN[0] in batch and SPAN[1] in batch:
        starts, ends = (_places_inside(batch, name) for name in SPAN)
        return starts + ends if starts and ends else 0
    labels = host_array(batch["labels"]) if "labels" in batch else None
    if labels is None or labels.dtype.kind not in "iu":
        return row_count(batch)
    return int(np.count_nonzero(labels != IGNORED))


def _places_inside(batch: Batch, name: str) -> int:
    """Number of positions [B], ``batch[name]``, at which their rows have tokens."""
    places = host_array(batch[name]).reshape(-1)
    if "sequence_offsets" in batch:
        longest = np.diff(batch["sequence_offsets"])
        return int(np.count_nonzero((places >= 0) & (places < longest)))
    real = batch.get("attention_mask", batch.get("input_ids"))
    if real is None:
        return len(places)
    real = host_array(real) if "attention_mask" in batch else np.ones(np.shape(real))
    rows = np.flatnonzero((places >= 0) & (places < real.shape[-1]))
    return int(np.count_nonzero(real[rows, places[rows]]))


def loss_weight(batch: Batch, logits: Any) -> int:
    """Returns the weight of a batch's mean loss in the data set's mean.

    It is the number of targets if each label is the class of one of the model's
    outputs, if values are masked, or if answers are marked; else the number of rows.

    Args:
        batch: the batch.
        logits: the model's; None if it has none.
    """
    counts = "masked" in batch or SPAN[0] in batch
    if counts or _are_classes(batch.get("labels"), logits):
        return target_count(batch)
    return row_count(batch)


def _are_classes(labels: Any, logits: Any) -> bool:
    """Whether each label [...] is the class of one of the logits [..., classes]."""
    if labels is None or logits is None:
        return False
    shape: tuple[int, ...] = tuple(logits.shape)
    return shape[-1] > 1 and np.shape(labels) == shape[:-1]


def counts_of(batch: Batch) -> tuple[int, int]:
    """Returns targets and rows, for :func:`shares_of`; it reads rows of no targets."""
    targets = target_count(batch)
    return targets, targets or row_count(batch)


def shares_of(counts: Iterable[tuple[int, int]]) -> list[float]:
    """Returns each batch's share of the mean over all of their targets.

    Args:
        counts: targets and rows of every batch. Without any target, rows count.
    """
    targets, rows = zip(*counts, strict=True)
    total = sum(targets)
    return [n / total for n in targets] if total else [n / sum(rows) for n in rows]


def token_count(batch: Batch) -> int:
    """Number of tokens or time steps without padding, including targets."""
    if "sequence_offsets" in batch:
        targets = batch.get("decoder_sequence_offsets", [0])
        return int(batch["sequence_offsets"][-1]) + int(targets[-1])
    if "attention_mask" not in batch:
        return int(np.size(batch.get("input_ids", row_ids(batch))))
    return int(np.sum(batch["attention_mask"]))


def has_targets(batch: Batch) -> bool:
    """Whether the batch has targets, so that the model computes a loss."""
    return any(name in batch for name in getattr(batch, "targets", TARGETS))


def row_ids(batch: Batch) -> np.ndarray:
    """Index of every row in the data set; if unknown, its index in the batch."""
    if "row_ids" in batch:
        return np.asarray(batch["row_ids"])
    return np.arange(row_count(batch))


def inputs_of(batch: Batch) -> Batch:
    """Returns the part of a batch that the model takes."""
    return {key: value for key, value in batch.items() if key != "row_ids"}


def slice_rows(batch: Batch, start: int, stop: int) -> Batch:
    """Returns rows start … stop−1 as a batch."""
    spans = dict.fromkeys(batch, slice(start, stop))
    part = copy.copy(batch)
    for prefix in ("", "decoder_"):
        name = f"{prefix}sequence_offsets"
        if name not in batch:
            continue
        names = getattr(batch, "decoder_tokens", ()) if prefix else tokens_of(batch)
        offsets = np.asarray(batch[name])
        tokens = slice(int(offsets[start]), int(offsets[stop]))
        spans.update(dict.fromkeys(names, tokens))
        part[name] = offsets[start : stop + 1] - offsets[start]
        del spans[name]
    part.update({name: batch[name][span] for name, span in spans.items()})
    return part


def single_row(batch: Batch, row: int) -> Batch:
    """Returns one row as a batch."""
    return slice_rows(batch, row, row + 1)


def split_rows(batch: Batch, parts: int) -> list[Batch]:
    """Splits the batch into at most ``parts`` nearly equal, non-empty batches."""
    rows = row_count(batch)
    if parts <= 1 or rows <= 1:
        return [batch]
    parts = min(parts, rows)
    bounds = [rows * i // parts for i in range(parts + 1)]
    return [slice_rows(batch, a, b) for a, b in pairwise(bounds)]
