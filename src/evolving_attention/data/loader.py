"""Batches in a reproducible order, given by (seed, epoch); resumable at any batch.

The order of an epoch is a pure function of (seed, epoch, number of rows, batch size):
row keys are raw 64-bit words of a Philox generator keyed with (seed, epoch), and rows
are sorted by key. No generator state has to be saved; a position is enough to resume.
"""

from __future__ import annotations

import contextlib
import queue
import re
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from evolving_attention.data.collate import (
    PairRows,
    collate_packed,
    collate_pairs,
    unpadded,
)
from evolving_attention.data.packed import Batch, PackedDataset, each
from evolving_attention.errors import ConfigError, InputError
from evolving_attention.field_types import check_whole
from evolving_attention.random_state import kept_random_state, set_seed

MEGA_BATCH = 50  # number of batches within which rows are sorted by length
_ORDER_STREAM, _BATCH_STREAM = 0, 1


def _keys(seed: int, epoch: int, count: int, stream: int) -> np.ndarray:
    """Returns ``count`` random 64-bit words, a function of (seed, epoch, stream)."""
    key = [seed & (2**64 - 1), (epoch << 1 | stream) & (2**64 - 1)]
    raw = np.random.Philox(key=np.array(key, dtype=np.uint64)).random_raw(count)
    return np.atleast_1d(raw)


def epoch_batches(
    lengths: np.ndarray | None,
    count: int,
    batch_size: int,
    *,
    seed: int,
    epoch: int,
    shuffle: bool = True,
    longest_first: bool = False,
    drop_last: bool = False,
) -> list[np.ndarray]:
    """Returns the row indices of every batch of one epoch.

    Args:
        lengths: tokens per row [count] to group rows by; None for no grouping.
        count: number of rows.
        batch_size: rows per batch.
        seed: seed of the sequence of epochs.
        epoch: index of the epoch in the sequence.
        shuffle: False gives the rows in their own order, ungrouped.
        longest_first: without shuffling, rows by descending length.
        drop_last: drop a last batch that is not full.

    With grouping, rows are shuffled, divided into groups of 50 batches, sorted by
    length in each group, and the batches are shuffled again. An incomplete batch comes
    last. The batch with the longest row comes first, so that a lack of memory shows at
    once.
    """
    order = np.arange(count)
    if shuffle:
        order = np.argsort(_keys(seed, epoch, count, _ORDER_STREAM), kind="stable")
    if longest_first and not shuffle and lengths is not None:
        order = np.argsort(-lengths, kind="stable")
    if shuffle and lengths is not None:
        span = batch_size * MEGA_BATCH
        for start in range(0, count, span):
            part = order[start : start + span]
            descending = np.argsort(-lengths[part], kind="stable")
            order[start : start + span] = part[descending]
    batches = [order[i : i + batch_size] for i in range(0, count, batch_size)]
    partial = batches.pop() if count % batch_size else None
    if shuffle and lengths is not None and batches:
        keys = _keys(seed, epoch, len(batches), _BATCH_STREAM)
        longest = [lengths[batch].max() for batch in batches]
        keys[int(np.argmax(longest))] = 0
        batches = [batches[i] for i in np.argsort(keys, kind="stable")]
    if partial is not None and not drop_last:
        batches.append(partial)
    return batches


def token_batches(
    lengths: np.ndarray, limit: int, *, seed: int, epoch: int
) -> list[np.ndarray]:
    """Returns row indices of an epoch's batches of at most ``limit`` tokens.

    Rows are shuffled and sorted by length; each batch takes the rows that fit (at least
    one). Batches are shuffled, except that the one with the longest row comes first.
    The sorted lengths, and so the number of batches, do not depend on the epoch.
    """
    order = np.argsort(_keys(seed, epoch, len(lengths), _ORDER_STREAM), kind="stable")
    order = order[np.argsort(-lengths[order], kind="stable")]
    ends = np.cumsum(lengths[order])
    cuts = [0]
    while cuts[-1] < len(order):
        before = ends[cuts[-1] - 1] if cuts[-1] else 0
        fitting = int(np.searchsorted(ends, before + limit, side="right"))
        cuts.append(max(fitting, cuts[-1] + 1))
    keys = _keys(seed, epoch, len(cuts) - 1, _BATCH_STREAM)
    keys[:1] = 0
    batches = [order[a:b] for a, b in pairwise(cuts)]
    return [batches[i] for i in np.argsort(keys, kind="stable")]


class PackedLoader:
    """Iterates over a data set in batches.

    Args:
        features: the rows: a :class:`~evolving_attention.data.packed.PackedDataset`, or
            any sequence of dicts with ``input_ids`` (lists or arrays), including
            ``datasets.Dataset``.
        batch_size: rows per batch.
        batch_tokens: tokens per batch, instead of ``batch_size``; needs shuffling and
            grouping by length, see :func:`token_batches`.
        seed: together with ``epoch`` determines the order.
        epoch: number of the pass over the rows, from 0.
        shuffle: False for evaluation: rows in their own order, or by length.
        group_by_length: batch rows of similar length (only when shuffling).
        longest_first: rows by descending length (only when not shuffling).
        drop_last: drop a last batch that is not full.
        collate: function from (rows, row ids) to a batch, for example
            ``collate_padded`` with its options bound; default: packed, by
            ``collate_pairs`` if the rows are :class:`PairRows`.
        prefetch: batches to prepare in a background thread; 0 for none.
        share: (k, n): build the batches k, k + n, … of an epoch, and yield None for
            those of other processes.
        make_all: build the other batches too, for side effects of building them.

    Iterating yields batches with ``row_ids``; ``len()`` is the number of batches of an
    epoch. After ``skip(k)`` a new loader over the same rows continues exactly with
    batch k + 1.

    Raises:
        ConfigError: an argument is out of range.
    """

    def __init__(
        self,
        features: PackedDataset | Sequence[Mapping[str, Any]],
        batch_size: int,
        *,
        batch_tokens: int | None = None,
        seed: int = 0,
        epoch: int = 0,
        shuffle: bool = True,
        group_by_length: bool = True,
        longest_first: bool = False,
        drop_last: bool = False,
        collate: Callable[[Sequence[Mapping[str, Any]], Sequence[int]], Batch]
        | None = None,
        prefetch: int = 0,
        share: tuple[int, int] = (0, 1),
        make_all: bool = False,
    ) -> None:
        check_whole("PackedLoader", batch_size=batch_size)
        check_whole("PackedLoader", 0, epoch=epoch, prefetch=prefetch)
        self.features, self.batch_size = features, int(batch_size)
        self.seed, self.shuffle, self.drop_last = int(seed), shuffle, drop_last
        self.prefetch = int(prefetch)
        self.epoch = int(epoch)
        self._collate, self.share, self.make_all = collate, share, make_all
        self.longest_first = longest_first
        by_length = group_by_length if shuffle else longest_first
        self._lengths: np.ndarray | None = None
        if by_length:
            with self._repeatable_reading():
                self._lengths = row_lengths(features, collate is None)
        self.batch_tokens = batch_tokens
        self._count: int | None = None  # number of batches if limited by tokens
        self._start = 0  # first batch of the next iteration

    @contextlib.contextmanager
    def _repeatable_reading(self) -> Iterator[None]:
        """Reads the rows of a class of the caller's own with a seed of its own.

        It may draw rows at random: their lengths must not depend on where an epoch is
        resumed, nor rows of later batches on reading them. Other rows draw nothing, and
        their readers leave the global generators to fits in other threads.
        """
        rows: Any = self.features
        rows = rows.rows if isinstance(rows, PairRows) else rows
        if isinstance(rows, (list, tuple)) or hasattr(rows, "lengths"):
            yield
            return
        with kept_random_state():
            set_seed(int(_keys(self.seed, self.epoch, 1, _ORDER_STREAM)[0]) % 2**32)
            yield

    def __len__(self) -> int:
        if self.batch_tokens is not None:
            if self._count is None:
                self._count = len(self.batches())
            return self._count
        full, rest = divmod(len(self.features), self.batch_size)
        return full + (1 if rest and not self.drop_last else 0)

    def skip(self, batches: int) -> None:
        """Start the next iteration after this many batches of its epoch."""
        if not 0 <= batches <= len(self):
            raise ConfigError(
                f"cannot skip {batches} batches; the epoch has {len(self)}"
            )
        self._start = int(batches)

    def batches(self) -> list[np.ndarray]:
        """Returns the row indices of every batch of the current epoch."""
        if self.batch_tokens is not None and self._lengths is not None:
            return token_batches(
                self._lengths, self.batch_tokens, seed=self.seed, epoch=self.epoch
            )
        return epoch_batches(
            self._lengths,
            len(self.features),
            self.batch_size,
            seed=self.seed,
            epoch=self.epoch,
            shuffle=self.shuffle,
            longest_first=self.longest_first,
            drop_last=self.drop_last,
        )

    def make_batch(self, indices: np.ndarray) -> Batch:
        """Returns the batch of these rows."""
        if self._collate is None and isinstance(self.features, PackedDataset):
            return self.features.gather(indices)
        features: Any = self.features
        rows = [features[int(index)] for index in indices]
        row_ids = indices.tolist()
        if self._collate is not None:
            return self._collate(rows, row_ids)
        with _named_by(row_ids):
            if isinstance(features, PairRows):
                return collate_pairs(rows, row_ids)
            return collate_packed(rows, row_ids)

    def _numbered_batch(self, numbered: tuple[int, np.ndarray]) -> Batch | None:
        """Returns batch ``number`` of the epoch; None if another process builds it."""
        number, indices = numbered
        mine = number % self.share[1] == self.share[0]
        batch = self.make_batch(indices) if mine or self.make_all else None
        return batch if mine else None

    def __iter__(self) -> Iterator[Batch | None]:
        start, self._start = self._start, 0
        todo = list(enumerate(self.batches()))[start:]
        if self.prefetch:
            ahead = _in_background(self._numbered_batch, todo, self.prefetch)
            with contextlib.closing(ahead) as made:
                yield from made
        else:
            yield from map(self._numbered_batch, todo)


@contextlib.contextmanager
def _named_by(row_ids: Sequence[int]) -> Iterator[None]:
    """Makes the errors about a row of a batch name its place in the data set."""
    try:
        yield
    except InputError as error:
        found = re.match(r"row (\d+) of the batch", text := str(error))
        if found is None:
            raise
        row = row_ids[int(found[1])]
        raise InputError(f"row {row} of the data set{text[found.end() :]}") from None


def row_lengths(
    features: PackedDataset | Sequence[Mapping[str, Any]], without_padding: bool = True
) -> np.ndarray:
    """Returns the number of tokens of every row: int64 [rows].

    ``without_padding``: count tokens by the ``attention_mask``, as
    :func:`collate_packed` does; other collate functions may count differently.
    """
    if isinstance(features, PairRows):
        with _named_by(range(len(features))):
            return features.count_tokens()
    lengths = getattr(features, "lengths", None)
    if lengths is None:
        read = unpadded if without_padding else lambda row, where: row
        rows = enumerate(each(features))
        with _named_by(range(len(features))):
            lengths = [_length(read(row, i), i) for i, row in rows]
    return np.asarray(lengths, dtype=np.int64)


def _length(row: Mapping[str, Any], where: int) -> int:
    """Returns the number of tokens of a row, which errors name by its index."""
    try:
        return len(row["input_ids"])
    except (KeyError, TypeError):
        found = f"{row.get('input_ids')!r:.60}" if "input_ids" in row else "missing"
        raise InputError(
            f"row {where} of the data set: input_ids is {found}, expected a list of "
            "ints in every row; tokenise it (tokenize_dataset), or leave it out"
        ) from None


def _in_background(
    make: Callable[[Any], Any], todo: Sequence[Any], ahead: int
) -> Generator[Any, None, None]:
    """Builds batches in a thread, at most ``ahead`` in advance.

    Keeps the order, and raises the thread's errors in the consumer. The thread ends
    after the last batch, or when the consumer stops early.
    """
    store: queue.Queue[tuple[str, Any]] = queue.Queue(maxsize=ahead)
    stop = threading.Event()

    def put(kind: str, value: Any) -> bool:
        while not stop.is_set():
            try:
                store.put((kind, value), timeout=0.05)
                return True
            except queue.Full:
                continue
        return False

    def work() -> None:
        try:
            for indices in todo:
                if not put("batch", make(indices)):
                    return
            put("end", None)
        except BaseException as error:  # passed to the consumer, whatever it is
            put("error", error)

    thread = threading.Thread(target=work, name="ea-prefetch", daemon=True)
    thread.start()
    try:
        while True:
            kind, value = store.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            yield value
    finally:
        stop.set()
        thread.join()
