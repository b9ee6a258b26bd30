"""Draws the values that pre-training hides: spans of geometric length."""

from __future__ import annotations

from typing import Any

import numpy as np

from evolving_attention.errors import ConfigError, InputError
from evolving_attention.field_types import check_whole


def mask_spans(
    lengths: Any,
    channels: int,
    *,
    ratio: float = 0.15,
    mean_span: float = 3.0,
    rng: np.random.Generator | int | None = None,
) -> np.ndarray:
    """Draws the cells that pre-training hides: ``masked`` of the model's call.

    Each variable of each series is its own two-state chain: hidden spans have a
    geometric length of mean ``mean_span``, shown spans of mean
    ``mean_span · (1 − ratio) / ratio``, and a chain starts hidden with probability
    ``ratio``, so every cell is hidden with that probability. If all cells of the batch
    would be shown, one cell drawn at random is hidden.

    Args:
        lengths: steps of each series, integers >= 1.
        channels: number of variables.
        ratio: expected share of hidden cells, in (0, 1).
        mean_span: mean length of hidden spans in steps, >= 1.
        rng: generator, or a seed.

    Returns:
        Booleans [n, longest, channels], True for hidden cells, False in the padding.

    Raises:
        ConfigError: a value is out of range.
        InputError: ``lengths`` is not a list of positive integers.

    Source: Zerveas et al., A Transformer-based Framework for Multivariate Time Series
    Representation Learning, KDD 2021, Section 3.3, with the paper's ratio and mean.
    """
    steps = np.asarray(lengths)
    if steps.ndim != 1 or steps.size == 0 or steps.dtype.kind not in "iu":
        raise InputError(
            f"mask_spans: lengths is {steps.dtype} of shape {steps.shape}, expected a "
            "list of integers, one for each series"
        )
    if steps.min() < 1:
        raise InputError(
            f"mask_spans: lengths[{int(steps.argmin())}] = {steps.min()}, expected 1 "
            "or more; leave empty series out"
        )
    if not 0.0 < ratio < 1.0:
        raise ConfigError(f"mask_spans: ratio={ratio!r}, expected a number in (0, 1)")
    if not 1.0 <= mean_span < np.inf:
        raise ConfigError(f"mask_spans: mean_span={mean_span!r}, expected 1 or more")
    check_whole("mask_spans", channels=channels)
    generator = _generator_of(rng)
    n, longest = len(steps), int(steps.max())
    # Probability of leaving a state: 1 / mean length; shown spans are the longer ones.
    leave_hidden = 1.0 / mean_span
    leave_shown = leave_hidden * ratio / (1.0 - ratio)
    if leave_shown > 1.0:
        raise ConfigError(
            f"mask_spans: ratio={ratio} with mean_span={mean_span}: shown spans would "
            "have a mean length below one step; take a smaller ratio or longer spans"
        )
    draws = generator.random((longest, n, channels))
    masked = np.empty((longest, n, channels), bool)
    hidden = draws[0] < ratio
    masked[0] = hidden
    for step in range(1, longest):
        leave = draws[step] < np.where(hidden, leave_hidden, leave_shown)
        hidden = hidden ^ leave
        masked[step] = hidden
    masked = np.ascontiguousarray(masked.transpose(1, 0, 2))
    masked &= (np.arange(longest) < steps[:, None])[:, :, None]
    if not masked.any():
        series = int(generator.integers(n))
        step = int(generator.integers(steps[series]))
        masked[series, step, int(generator.integers(channels))] = True
    return masked


def _generator_of(rng: np.random.Generator | int | None) -> np.random.Generator:
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise ConfigError(
            f"mask_spans: rng={rng!r}, expected a generator of NumPy, or a seed from 0"
        ) from None
