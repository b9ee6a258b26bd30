"""Sums gradients over ranks in a fixed order, for parameters sent together.

Every rank owns a part (shard) of each bucket. A turn adds the gradients of one batch of
each rank: a rank sends the shards of its gradient to their owners, and an owner adds
the received shards in rank order. After the last turn the owners send their sums to
all. So a sum is ((g0 + g1) + g2) + …, batch after batch, as in one process.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from evolving_attention.distributed.world import FIRST_FREE_TAG, World, bytes_of

_ALIGNED = 64  # alignment in elements of parameters in a bucket
_TAGS = 3  # per bucket: present gradients, shards, sums
_BYTES = {"float32": 4, "bfloat16": 2, "float64": 8}


class Bucket:
    """Parameters of one element type in one buffer.

    Args:
        world: the ranks.
        number: number of the bucket; distinguishes its messages.
        members: (index, tensor) of its parameters.
    """

    def __init__(
        self, world: World, number: int, members: list[tuple[int, Any]]
    ) -> None:
        self.world, self.members = world, members
        self.first_tag = FIRST_FREE_TAG + _TAGS * number
        self.places, size = [], 0
        for _, tensor in members:
            self.places.append((size, size + tensor.size))
            size += -(-tensor.size // _ALIGNED) * _ALIGNED
        kind = np.asarray(members[0][1]).dtype
        blocks = size // _ALIGNED
        self.bounds = [
            blocks * rank // world.size * _ALIGNED for rank in range(world.size + 1)
        ]
        self.whole = np.zeros(size, kind)
        low, high = self.bounds[world.rank : world.rank + 2]
        self.low, self.high = low, high
        self.arrived = np.empty((world.size, high - low), kind)
        self.sum = np.zeros(high - low, kind)
        self.present = np.zeros((world.size, len(members)), np.uint8)
        self.clear()

    def clear(self) -> None:
        """Clears all sums for a new step."""
        self.summed = np.zeros(len(self.members), bool)  # parameters that have a sum
        self.stage = "idle"
        self.requests: list[Any] = []

    def launch(self, givers: int, last: bool) -> None:
        """Takes this rank's gradients and sends their shards to the owners.

        Args:
            givers: ranks 0 … givers−1 have a batch in this turn.
            last: whether the sums are sent back after this turn.
        """
        world, tag = self.world, self.first_tag
        self.givers, self.last, self.stage = givers, last, "shards"
        self.present[:] = 0
        for place, ((_, tensor), (start, stop)) in enumerate(
            zip(self.members, self.places, strict=True)
        ):
            gradient = tensor.grad
            if gradient is not None:
                self.present[world.rank, place] = 1
                self.whole[start:stop] = np.asarray(gradient).reshape(-1)
                tensor.grad = None
        whole, wide = bytes_of(self.whole), self.whole.itemsize
        self.requests = []
        for peer in world.peers:
            if peer < givers:
                row = bytes_of(self.present[peer])
                self.requests.append(world.receive(peer, tag, row))
                row = bytes_of(self.arrived[peer])
                self.requests.append(world.receive(peer, tag + 1, row))
            if world.rank < givers:
                row = bytes_of(self.present[world.rank])
                self.requests.append(world.send(peer, tag, row))
                low, high = (wide * at for at in self.bounds[peer : peer + 2])
                self.requests.append(world.send(peer, tag + 1, whole[low:high]))

    def advance(self) -> bool:
        """Processes the messages received so far; returns whether the turn is over."""
        if self.stage in ("shards", "sums") and all(r.done for r in self.requests):
            if self.stage == "shards":
                self._add_up()
                self.stage = "idle"
                if self.last:
                    self._send_sums()
            else:
                self._hand_out()
                self.stage = "idle"
        return self.stage == "idle"

    def _add_up(self) -> None:
        """Adds the received data to this rank's shard, in rank order."""
        given = self.present[: self.givers].astype(bool)
        if given.all() and len(set(self.summed.tolist())) <= 1:
            self._add_part(0, self.high - self.low, given[:, 0], bool(self.summed[0]))
        else:
            for place, (start, stop) in enumerate(self.places):
                start, stop = max(start, self.low), min(stop, self.high)
                if start < stop:
                    part = start - self.low, stop - self.low
                    self._add_part(*part, given[:, place], bool(self.summed[place]))
        self.summed |= given.any(axis=0)

    def _add_part(self, start: int, stop: int, given: np.ndarray, begun: bool) -> None:
        """Adds part [start, stop) of every rank that gave a gradient to the sum."""
        if start == stop:
            return
        from evolving_attention._core import from_numpy

        target = self.sum[start:stop]
        for rank in np.flatnonzero(given):
            source = self.arrived[rank]
            if rank == self.world.rank:
                source = self.whole[self.low : self.high]
            if begun:  # with the core, as backward adds
                from_numpy(target).add_(from_numpy(source[start:stop]))
            else:
                target[:] = source[start:stop]
            begun = True

    def _send_sums(self) -> None:
        """Exchanges the sums of the shards, so that every rank has all of them."""
        world, tag, wide = self.world, self.first_tag + 2, self.whole.itemsize
        self.whole[self.low : self.high] = self.sum
        whole = bytes_of(self.whole)
        shards = [whole[wide * a : wide * b] for a, b in pairwise(self.bounds)]
        self.stage = "sums"
        self.requests = [
            world.receive(peer, tag, shards[peer]) for peer in world.peers
        ] + [world.send(peer, tag, shards[world.rank]) for peer in world.peers]

    def _hand_out(self) -> None:
        """Sets the parameters' gradients to the sums, without a copy."""
        from evolving_attention._core import from_numpy

        for place, ((_, tensor), (start, stop)) in enumerate(
            zip(self.members, self.places, strict=True)
        ):
            if self.summed[place]:
                part = self.whole[start:stop].reshape(tensor.shape)
                tensor.grad = from_numpy(part)


class DeviceBucket:
    """A bucket exchanged between devices; the core does all the work without waiting.

    Args:
        links: the devices of the ranks.
        members: (index, tensor) of its parameters.
    """

    requests: tuple[Any, ...] = ()

    def __init__(self, links: Any, members: list[tuple[int, Any]]) -> None:
        from evolving_attention._core import GradientBucket

        self.members = members
        self._core = GradientBucket(links.ranks, [tensor for _, tensor in members])
        self.clear()

    def clear(self) -> None:
        """Clears all sums for a new step."""
        self.given = [False] * len(self.members)
        self._core.clear()

    def launch(self, givers: int, last: bool) -> None:
        """Takes this rank's gradients and starts their exchange."""
        now = self._core.launch(givers, last)
        self.given = [a or b for a, b in zip(self.given, now, strict=True)]

    def advance(self) -> bool:
        """Whether the host's part of the turn is over: always."""
        return True

    def hand_out(self, every: list[list[bool]]) -> None:
        """Sets gradients to the sums, for parameters with a gradient on some rank."""
        self._core.hand_out([any(column) for column in zip(*every, strict=True)])


def groups_of(
    parameters: list[tuple[int, Any]], limit: int
) -> list[list[tuple[int, Any]]]:
    """Groups parameters in order, each group of at most ``limit`` bytes.

    A larger parameter has its own group. Each group has one element type.
    """
    groups: list[list[tuple[int, Any]]] = []
    held, kind = 0, None
    for index, tensor in parameters:
        size = tensor.size * _BYTES[tensor.dtype]
        if not groups or tensor.dtype != kind or held + size > limit:
            groups.append([])
            held, kind = 0, tensor.dtype
        groups[-1].append((index, tensor))
        held += size
    return groups
