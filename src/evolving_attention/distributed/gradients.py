"""Sums the gradients of a step over the batches of all ranks, during backward.

The sum is bit-identical to that of one process with the same batches in order.
Parameters are sent in buckets (:mod:`.buckets`) as soon as backward has finished all of
a bucket. Embedding tables, whose gradients are rows, are sent at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from evolving_attention.distributed.buckets import Bucket, DeviceBucket, groups_of
from evolving_attention.distributed.world import World

_Part = tuple[Any, Any]  # (ids, values) of a table's gradient; no ids: all rows


class GradientSum:
    """Sums the gradients of ``parameters`` over ranks, turn after turn.

    A turn is one batch per rank; ranks 0 … givers−1 have one.

    Args:
        world: the ranks; all make the same calls.
        parameters: the trained tensors, in the same order on all ranks; a forward
            pass has run, so that tables are known.
        bucket_bytes: largest size of a bucket.
        links: the devices of the ranks; None if the parameters are on the CPU.
    """

    def __init__(
        self,
        world: World,
        parameters: list[Any],
        bucket_bytes: int,
        links: Any = None,
    ) -> None:
        self.world, self.links = world, links
        flags = [int(p.is_table) for p in parameters]
        tables: list[bool] = np.any(np.array(world.values(flags)), axis=0).tolist()
        self.tables = [p for p, t in zip(parameters, tables, strict=True) if t]
        others = [(i, p) for i, p in enumerate(parameters) if not tables[i]]
        # backward reaches the last parameters first
        groups = groups_of(others[::-1], bucket_bytes)
        self.buckets: list[Any] = [
            Bucket(world, number, group)
            if links is None
            else DeviceBucket(links, group)
            for number, group in enumerate(groups)
        ]
        self._bucket_of = {
            index: number
            for number, bucket in enumerate(self.buckets)
            for index, _ in bucket.members
        }

    def begin(self) -> None:
        """Starts a new step with empty sums."""
        for bucket in self.buckets:
            bucket.clear()
        self._sums = [_twin(table) for table in self.tables]

    def open(self, givers: int, last: bool) -> None:
        """Starts a turn; ``last``: the sums are needed after it."""
        self._givers, self._last, self._next = givers, last, 0
        self._missing = [len(bucket.members) for bucket in self.buckets]

    def completed(self, index: int) -> None:
        """Records that backward has finished the gradient of a parameter."""
        number = self._bucket_of.get(index)
        if number is None:
            return
        self._missing[number] -= 1
        self._send_complete()

    def _send_complete(self) -> None:
        """Sends complete buckets in order, and processes messages."""
        while self._next < len(self.buckets) and self._missing[self._next] <= 0:
            self.buckets[self._next].launch(self._givers, self._last)
            self._next += 1
        self.world.progress()
        for bucket in self.buckets[: self._next]:
            bucket.advance()

    def close(self) -> None:
        """Ends the turn: sums all gradients, and sets them after the last turn."""
        self._missing = [0] * len(self.buckets)
        self._send_complete()
        self._add_tables()
        for bucket in self.buckets:
            while not bucket.advance():
                self.world.wait(bucket.requests)
        if self.links is not None:
            self._join()
        if self._last:
            for table, total in zip(self.tables, self._sums, strict=True):
                _move(total, table)

    def _join(self) -> None:
        """Orders the device's later work after the sums; sets them as gradients."""
        self.links.ranks.join()
        if self._last:
            every = self.world.values([bucket.given for bucket in self.buckets])
            for place, bucket in enumerate(self.buckets):
                bucket.hand_out([theirs[place] for theirs in every])

    # -------------------------------------------------------------------- tables

    def _add_tables(self) -> None:
        """Gathers the gradients of all ranks and adds them in rank order."""
        own = [_taken(table) for table in self.tables]
        exchange = self._tables_of_all if self.links is None else self._by_devices
        for total, parts in zip(self._sums, exchange(own), strict=True):
            for ids, values in parts[: self._givers]:
                _add(total, ids, values)

    def _tables_of_all(self, own: list[_Part]) -> list[list[_Part]]:
        """Returns the table gradients of every rank, by table and rank."""
        from evolving_attention._core import Tensor

        arrays = [None if x is None else np.asarray(x) for part in own for x in part]
        found = [
            [None if x is None else Tensor(x) for x in theirs]
            for theirs in self.world.arrays(arrays)
        ]
        return [
            [(theirs[place], theirs[place + 1]) for theirs in found]
            for place in range(0, 2 * len(own), 2)
        ]

    def _by_devices(self, own: list[_Part]) -> list[list[_Part]]:
        """Like :meth:`_tables_of_all`, with ids sent by hosts and values by devices."""
        from evolving_attention._core import Tensor

        whole = np.empty(0, np.int64)
        every = self.world.arrays(
            [
                None if values is None else whole if ids is None else np.asarray(ids)
                for ids, values in own
            ]
        )
        found = []
        for place, table in enumerate(self.tables):
            ids = [theirs[place] for theirs in every]
            shapes = [
                None if x is None else [len(x) or table.shape[0], *table.shape[1:]]
                for x in ids
            ]
            values = self.links.ranks.gather(own[place][1], shapes, table.dtype)
            rows = [None if x is None or not len(x) else Tensor(x) for x in ids]
            found.append(list(zip(rows, values, strict=True)))
        return found


def _twin(table: Any) -> Any:
    """Returns a leaf with the same values and its own gradient."""
    twin = table.detach()
    twin.requires_grad = True
    return twin


def _taken(table: Any) -> _Part:
    """Removes a table's gradient and returns it as (ids, values); no ids: all rows."""
    rows = table.row_grad
    whole = table.grad if rows is None else None
    table.grad = None
    return rows or (None, whole)


def _add(total: Any, ids: Any, values: Any) -> None:
    """Adds a gradient to that of ``total``, as backward adds to a leaf."""
    rows = total.row_grad
    if values is None:
        return
    if ids is not None:
        total.add_row_grad(ids, values)
    elif rows is None and total.grad is not None:
        total.grad.add_(values)
    else:
        total.grad = values
        if rows is not None:
            total.add_row_grad(*rows)


def _move(total: Any, table: Any) -> None:
    """Moves the gradient of ``total`` to the table."""
    rows = total.row_grad
    if rows is not None:
        table.grad = None
        table.add_row_grad(*rows)
    else:
        table.grad = total.grad
    total.grad = None
