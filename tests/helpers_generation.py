"""Briefly trained encoder-decoders, and searches written by definition."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from helpers_transformer import Pairs, tiny

import evolving_attention as ea

END = 2
LENGTHS = (9, 5, 1, 14, 2, 12)  # source lengths


@functools.cache
def _trained(variant: str) -> Any:
    """Returns a model that has begun to sort: targets differ and end on their own."""
    model = tiny(variant)
    optimizer = ea.optim.AdamW(model.parameters(), lr=1e-2)
    rng = np.random.default_rng(0)
    for _ in range(60):
        rows = [rng.integers(3, 12, rng.integers(1, 9)) for _ in range(16)]
        pairs = Pairs(rows, [np.append(np.sort(row), END) for row in rows])
        model(**pairs.packed()).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model.eval()


def trained(variant: str = "evolving", dtype: str = "float32") -> Any:
    """Returns a copy of the trained model."""
    return _trained(variant).copy(dtype).eval()


def sources(lengths: tuple[int, ...] = LENGTHS, seed: int = 3) -> list[np.ndarray]:
    """Returns rows of tokens as in training."""
    rng = np.random.default_rng(seed)
    return [rng.integers(3, 12, n) for n in lengths]


def padded(rows: list[np.ndarray], extra: int = 0, left: bool = False) -> Any:
    """Returns the rows as ``input_ids`` and ``attention_mask``."""
    given = Pairs(rows, rows).padded(extra, left)
    return {key: given[key] for key in ("input_ids", "attention_mask")}


def log_probabilities(model: Any, row: np.ndarray, targets: Any) -> np.ndarray:
    """Returns float64 [targets, T, V] of the next token, by whole forward passes."""
    targets = np.asarray(targets)
    with ea.no_grad():
        logits = model(
            np.tile(row, (len(targets), 1)), decoder_input_ids=targets
        ).logits
    x = np.asarray(logits).astype(np.float32).astype(np.float64)
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def greedy(model: Any, row: np.ndarray, limit: int, start: int = 1) -> list[int]:
    """Searches by definition: the whole target is computed again for every token."""
    target = [start]
    while len(target) <= limit and (len(target) == 1 or target[-1] != END):
        target.append(int(log_probabilities(model, row, [target])[0, -1].argmax()))
    return target


def beams(
    model: Any,
    row: np.ndarray,
    limit: int,
    num_beams: int,
    length_penalty: float = 1.0,
    early_stopping: bool | str = False,
    divisor: Callable[[int], float] = float,
) -> list[tuple[float, list[int]]]:
    """Returns (score, target) of one source, best first: beam search in plain Python.

    Scores are divided by divisor(n)^length_penalty for n tokens.
    """
    running, finished = [(0.0, [1])], []
    for n in range(1, limit + 1):
        log_p = log_probabilities(model, row, [ids for _, ids in running])[:, -1]
        found = [
            (score + p, [*ids, token])
            for (score, ids), each in zip(running, log_p, strict=True)
            for token, p in enumerate(each)
        ]
        found = sorted(found, key=lambda pair: -pair[0])[: 2 * num_beams]
        stops = [ids[-1] == END or n == limit for _, ids in found]
        finished += [
            (score / divisor(n) ** length_penalty, ids)
            for (score, ids), stop in list(zip(found, stops, strict=True))[:num_beams]
            if stop
        ]
        finished = sorted(finished, key=lambda pair: -pair[0])[:num_beams]
        running = [f for f, stop in zip(found, stops, strict=True) if not stop]
        running = running[:num_beams]
        if not running or (len(finished) == num_beams and early_stopping is True):
            break
        longest = early_stopping == "never" and length_penalty > 0
        hoped = running[0][0] / divisor(limit if longest else n) ** length_penalty
        if len(finished) == num_beams and hoped <= finished[-1][0]:
            break
    return finished
