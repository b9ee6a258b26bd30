"""T5's pre-training: spans of a text are replaced, and the model writes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from evolving_attention.errors import ConfigError, InputError


def corrupt_spans(
    rows: Sequence[Any],
    *,
    ratio: float = 0.15,
    mean_span: float = 3.0,
    first_sentinel: int = 32_099,
    num_sentinels: int = 100,
    eos_token_id: int = 1,
    seed: int = 0,
    first_row: int = 0,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns sources with sentinels in place of spans, and targets with the spans.

    Of n tokens, round(n · ratio) are hidden, at least one and not all, in
    round(hidden / mean_span) spans. The hidden and the shown tokens are each divided
    into spans uniformly at random; a row begins with shown tokens and ends with a
    hidden span.

        source   shown₁ X₀ shown₂ X₁ … end
        target   X₀ hidden₁ X₁ hidden₂ … end

    Random numbers are keyed by the seed and the row's number: a row has the same spans
    in any batch. Use another seed for every epoch.

    Args:
        rows: token ids of each text, two or more, without an end token.
        ratio: share of hidden tokens, in (0, 1).
        mean_span: mean length of a hidden span, 1 or more.
        first_sentinel: the id of X₀ (``<extra_id_0>``); X₁ has the next lower id.
        num_sentinels: number of sentinels, and the most spans of a row.
        eos_token_id: id of the end token.
        seed: seed of the random numbers, 0 or more.
        first_row: the number of ``rows[0]``, if the rows are part of a corpus.

    Returns:
        Sources and targets, int64: ``ea.translation.ParallelDataset(*pair)`` makes a
        data set of them.

    Raises:
        ConfigError: a setting is out of range.
        InputError: a row is not a list of two or more token ids, or has a sentinel.

    Example:
        >>> import evolving_attention as ea
        >>> (source,), (target,) = ea.corrupt_spans([range(10, 20)], ratio=0.3)
        >>> source.tolist()
        [10, 11, 12, 13, 14, 15, 16, 32099, 1]
        >>> target.tolist()
        [32099, 17, 18, 19, 1]

    Source: Raffel et al., JMLR 2020, Section 3.3.4; spans are divided as in the
    released program.
    """
    _check(ratio, mean_span, first_sentinel, num_sentinels, eos_token_id)
    for name, value in (("seed", seed), ("first_row", first_row)):
        if not _whole(value) or not 0 <= value < 2**63:
            raise ConfigError(f"corrupt_spans: {name}={value!r}, expected 0 or more")
    _check_list(rows)
    sources, targets = list[np.ndarray](), list[np.ndarray]()
    least = first_sentinel - num_sentinels + 1
    for number, row in enumerate(rows):
        ids = _ids(row, number, least, first_sentinel)
        key = np.array([seed, first_row + number], np.uint64)
        generator = np.random.Generator(np.random.Philox(key=key))
        n = len(ids)
        hidden = min(max(round(n * ratio), 1), n - 1)
        spans = max(round(hidden / mean_span), 1)
        spans = min(spans, hidden, n - hidden, num_sentinels)
        lengths = [_divide(generator, total, spans) for total in (hidden, n - hidden)]
        ends = np.cumsum(np.stack(lengths[::-1], axis=1).ravel())
        parts = np.split(ids, ends[:-1])  # shown, hidden, shown, …
        marks = [np.array([first_sentinel - i]) for i in range(spans)]
        end = np.array([eos_token_id])
        for out, own in (
            (sources, (parts[::2], marks)),
            (targets, (marks, parts[1::2])),
        ):
            pairs = [part for pair in zip(*own, strict=True) for part in pair]
            out.append(np.concatenate([*pairs, end]).astype(np.int64))
    return sources, targets


def _divide(generator: np.random.Generator, total: int, parts: int) -> np.ndarray:
    """Returns lengths of non-empty parts; all divisions are equally likely."""
    cuts = np.sort(generator.choice(total - 1, parts - 1, replace=False)) + 1
    return np.diff(np.concatenate([[0], cuts, [total]]))


def _check_list(rows: Any) -> None:
    if not isinstance(rows, Iterable):
        raise InputError(
            f"corrupt_spans: rows is a {type(rows).__name__}, expected a list of token "
            "ids for each text, such as [[5, 6, 7]]"
        )


def _whole(value: object) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _check(
    ratio: float, mean_span: float, first: int, sentinels: int, end: int
) -> None:
    if not 0.0 < ratio < 1.0:
        raise ConfigError(
            f"corrupt_spans: ratio={ratio!r}, expected a number in (0, 1)"
        )
    if not 1.0 <= mean_span < np.inf:
        raise ConfigError(f"corrupt_spans: mean_span={mean_span!r}, expected 1 or more")
    if not _whole(sentinels) or not _whole(first) or not 1 <= sentinels <= first + 1:
        raise ConfigError(
            f"corrupt_spans: num_sentinels={sentinels!r} from first_sentinel={first!r} "
            "downwards, expected at least one, and ids of 0 or more"
        )
    if not _whole(end) or end < 0 or first - sentinels < end <= first:
        raise ConfigError(
            f"corrupt_spans: eos_token_id={end!r}, expected a token id that is no "
            "sentinel"
        )


def _ids(row: Any, number: int, least: int, first: int) -> np.ndarray:
    ids = np.asarray(row)
    if ids.ndim != 1 or len(ids) < 2 or ids.dtype.kind not in "iu":
        raise InputError(
            f"corrupt_spans: rows[{number}] is {ids.dtype} of shape {ids.shape}, "
            "expected a list of two or more token ids; leave shorter texts out"
        )
    found = np.flatnonzero((ids >= least) & (ids <= first))
    if len(found):
        raise InputError(
            f"corrupt_spans: rows[{number}][{found[0]}] = {ids[found[0]]} is a "
            f"sentinel ({least} to {first}), expected tokens of a text"
        )
    return ids
