"""Checks before the first step of a fit whether the longest batch fits in memory."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from evolving_attention import _core
from evolving_attention.data.images import ImageRows
from evolving_attention.data.series import SeriesRows
from evolving_attention.device_names import resolve_device
from evolving_attention.errors import OutOfMemory
from evolving_attention.memory import plan
from evolving_attention.memory.available import in_words, left

__all__ = ["left", "needs_recomputation", "upper_bound"]

Array = np.ndarray[Any, Any]
Rows = SeriesRows | ImageRows
_COPIES = 16  # per map and per feature; more than any kind keeps at once


def upper_bound(model: Any, lengths: Array) -> int | None:
    """Returns an upper bound of the bytes that a step on these series needs.

    Returns None for convolutional networks, whose features differ in width.
    """
    config = model.config
    if not hasattr(config, "intermediate_size"):
        return None
    n = lengths.astype(np.int64)
    cells = config.num_attention_heads * int((n * n).sum())
    features = int(n.sum()) * (config.hidden_size + config.intermediate_size)
    layers = sum(config.stacks.values())
    weights = sum(int(t.size) for t in model.parameters())
    bound: int = 4 * _COPIES * (layers * (cells + features) + weights)
    return bound


def needs_recomputation(
    model: Any, rows: Rows, batch_size: int, device: str, stacklevel: int
) -> bool:
    """Whether training fits only with gradient checkpointing; says so in a warning.

    The warning also says if even that probably does not fit. A step on the
    ``batch_size`` longest series is planned on the CPU, unless it certainly fits.
    Recomputation gives bit-identical results. Convolutional networks are not planned.

    Raises:
        OutOfMemory: the tensors that the forward pass keeps do not fit even so; names
            the bytes and the options that reduce them.
    """
    longest = np.argsort(rows.lengths, kind="stable")[-batch_size:]
    room = left()
    bound = upper_bound(model, rows.lengths[longest])
    if room is None or bound is None or bound <= room:
        return False
    if resolve_device(device) != "cpu":
        return False
    _core.release_cached_memory()
    room = left() or 0
    batch = _batch(rows, longest)
    whole = plan(model, batch, optimizer="radam")
    if whole.peak - whole.parameters <= room:
        return False
    was_on = model.is_gradient_checkpointing
    model.gradient_checkpointing_enable()
    try:
        lean = plan(model, batch, optimizer="radam")
    finally:
        if not was_on:
            model.gradient_checkpointing_disable()
    steps = int(rows.lengths[longest[-1]])
    step = f"fit: a step on {len(longest)} {rows.unit.format(steps)}"
    remedy = rows.lighter
    least = lean.optimizer + lean.activations
    if least > room:
        raise OutOfMemory(
            f"{step} needs at least {in_words(least)}, even with layers computed again "
            "in the backward pass, expected at most the "
            f"{in_words(room)} that are left; {remedy}"
        )
    if was_on:
        return False
    again = lean.peak - lean.parameters
    enough = "slower, the same bits. To avoid it"
    if again > room:
        enough = "probably too much, too. So that the fit does not run out of memory"
    warnings.warn(
        f"{step} would need about {in_words(whole.peak - whole.parameters)}, and "
        f"{in_words(room)} are left. The backward pass computes each layer again, "
        f"which needs about {in_words(again)}: {enough}, {remedy}",
        stacklevel=stacklevel,
    )
    return True


def _batch(rows: Rows, indices: Array) -> dict[str, Any]:
    """Returns these rows as inputs of a step, without random masks or weights."""
    batch = rows.bare(indices)
    inputs = {key: value for key, value in batch.items() if key != "row_ids"}
    if rows.labels is None:  # pre-training
        inputs["masked"] = np.ones(inputs["values"].shape, bool)
    return inputs
