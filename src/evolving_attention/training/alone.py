"""The team of a run of one process: the interface of :mod:`.parallel` without peers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["Alone"]


class Alone:
    """A run of one process: nothing is exchanged."""

    rank, size, local_rank, is_first = 0, 1, 0, True

    def threads(self, wanted: int | None) -> int | None:
        """Number of the core's threads; None keeps the current number."""
        return wanted

    def device(self, args: Any) -> str:
        """The name of the device in the arguments."""
        return "cpu" if args.use_cpu else str(args.device)

    def watching(self, output_dir: str) -> contextlib.AbstractContextManager[None]:
        """Context of every operation in which ranks wait for each other."""
        return contextlib.nullcontext()

    def check_same(self, what: str, value: Any, remedy: str) -> None:
        """Raise if another rank's value differs from rank 0's."""

    def compare_start(self, path: Path | None, fingerprint: dict[str, Any]) -> None:
        """Raise if a rank would train something else than rank 0."""

    def first(self, value: Any) -> Any:
        """Rank 0's value, which JSON must be able to hold."""
        return value

    def gather(self, values: list[Any]) -> list[Any]:
        """The lists of all ranks, one after another."""
        return values

    def arrays(self, array: np.ndarray) -> np.ndarray:
        """The arrays of all ranks, one after another along the first axis."""
        return array

    def stopped(self, guard: Any) -> bool:
        """Whether all ranks know of a received signal."""
        return guard is not None and guard.received is not None

    def agree(self, control: Any, guard: Any) -> None:
        """Share signals among all ranks, and take over rank 0's decisions."""

    def begin(self, model: Any, draw: Callable[[], Any], bucket_mb: float) -> None:
        """Prepare for training: see :meth:`Team.begin`."""

    def check(self) -> None:
        """Raise if the device has waited for a lost rank: its results are invalid."""

    def turns(self, batches: int, log: Any = None) -> Iterator[int]:
        """The indices of this rank's batches of a step.

        ``log`` receives the losses given to :meth:`record` on all ranks, in the order
        of the batches.
        """
        yield from range(batches)

    def record(self, log: Any, loss: Any, share: float) -> None:
        """Record a batch's loss and its share of the step's loss."""
        log.add_loss(loss, share)

    def backward(self, loss: Any) -> None:
        """Add the gradient of this turn's batch."""
        loss.backward()

    def combine(self, sums: Any, go_on: bool) -> None:
        """Add the results of other ranks' batches."""

    def report(
        self, bad: int | None, make: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """The report of a step that is not finite, from the rank of the bad batch."""
        return make()
