"""The gradients of a step, summed over the batches of all ranks while backward runs.

The sum is that of one process that takes the same batches one after another, bit for
bit. Parameters travel in buckets (:mod:`.buckets`), sent as soon as backward is through
with all of a bucket. Tables of embeddings, whose gradients are rows, go at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evolving_attention.distributed.buckets import buckets_of
from evolving_attention.distributed.world import World

__all__ = ["GradientSum"]


class GradientSum:
    """Sums the gradients of ``parameters`` over ranks, turn after turn.

    A turn is one batch per rank; ranks 0 … givers−1 have one.

    Args:
        world: the ranks; all make the same calls.
        parameters: the trained tensors, in the same order on all ranks; a forward
            pass has run, so that tables are known.
        bucket_bytes: size that a bucket may have.
    """

    def __init__(self, world: World, parameters: list[Any], bucket_bytes: int) -> None:
        self.world = world
        flags = [int(p.is_table) for p in parameters]
        tables = np.array(world.values(flags)).any(axis=0)
        self.tables = [p for p, t in zip(parameters, tables, strict=True) if t]
        others = [(i, p) for i, p in enumerate(parameters) if not tables[i]]
        # backward reaches the last parameters first
        self.buckets = buckets_of(world, others[::-1], bucket_bytes)
        self._bucket_of = {
            index: number
            for number, bucket in enumerate(self.buckets)
            for index, _ in bucket.members
        }

    def begin(self) -> None:
        """A new step: nothing is summed yet."""
        for bucket in self.buckets:
            bucket.clear()
        self._sums = [_twin(table) for table in self.tables]

    def open(self, givers: int, last: bool) -> None:
        """A turn begins; ``last``: the sums are wanted after it."""
        self._givers, self._last, self._next = givers, last, 0
        self._missing = [len(bucket.members) for bucket in self.buckets]

    def completed(self, index: int) -> None:
        """Backward has finished the gradient of a parameter."""
        number = self._bucket_of.get(index)
        if number is None:
            return
        self._missing[number] -= 1
        self._send_complete()

    def _send_complete(self) -> None:
        """Send the buckets that are complete, in their order; move messages on."""
        while self._next < len(self.buckets) and self._missing[self._next] <= 0:
            self.buckets[self._next].launch(self._givers, self._last)
            self._next += 1
        self.world.progress()
        for bucket in self.buckets[: self._next]:
            bucket.advance()

    def close(self) -> None:
        """The turn ends: all gradients are summed, and after the last one set."""
        self._missing = [0] * len(self.buckets)
        self._send_complete()
        self._add_tables()
        for bucket in self.buckets:
            while not bucket.advance():
                self.world.wait(bucket.requests)
        if self._last:
            for table, total in zip(self.tables, self._sums, strict=True):
                _move(total, table)

    # -------------------------------------------------------------------- tables

    def _add_tables(self) -> None:
        """Every rank gets the gradients of all and adds them in rank order."""
        own = [array for table in self.tables for array in _taken(table)]
        every = self.world.arrays(own)
        for place, total in enumerate(self._sums):
            for rank in range(self._givers):
                _add(total, *every[rank][2 * place : 2 * place + 2])


def _twin(table: Any) -> Any:
    """A leaf on the same values, with a gradient of its own."""
    twin = table.detach()
    twin.requires_grad = True
    return twin


def _taken(table: Any) -> tuple[np.ndarray | None, np.ndarray | None]:
    """(ids, values) of a table's gradient, which it has no more; no ids: all rows."""
    rows = table.row_grad
    whole = table.grad if rows is None else None
    table.grad = None
    if rows is not None:
        return np.asarray(rows[0]), np.asarray(rows[1])
    return None, None if whole is None else np.asarray(whole)


def _add(total: Any, ids: np.ndarray | None, values: np.ndarray | None) -> None:
    """Add a gradient to that of ``total``, as backward adds to a leaf."""
    from evolving_attention._core import Tensor

    rows = total.row_grad
    if values is None:
        return
    if ids is not None:
        total.add_row_grad(Tensor(ids), Tensor(values))
    elif rows is None and total.grad is not None:
        total.grad.add_(Tensor(values))
    else:
        total.grad = Tensor(np.array(values))
        if rows is not None:
            total.add_row_grad(*rows)


def _move(total: Any, table: Any) -> None:
    """Hand the gradient of ``total`` to the table."""
    rows = total.row_grad
    if rows is not None:
        table.grad = None
        table.add_row_grad(*rows)
    else:
        table.grad = total.grad
    total.grad = None
