"""The team of a single-process run: the interface of :mod:`.parallel` without peers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np


class Alone:
    """A run of one process; nothing is exchanged."""

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

    def alarming(self) -> contextlib.AbstractContextManager[None]:
        """Context of training, up to ``on_train_end``."""
        return contextlib.nullcontext()

    def check_same(self, what: str, value: Any, remedy: str) -> None:
        """Raises if another rank's value differs from rank 0's."""

    def compare_start(self, path: Path | None, fingerprint: dict[str, Any]) -> None:
        """Raises if a rank would train differently from rank 0."""

    def first(self, value: Any) -> Any:
        """Returns rank 0's value, which must be JSON-serialisable."""
        return value

    def gather(self, values: list[Any]) -> list[Any]:
        """Returns the lists of all ranks, concatenated in rank order."""
        return values

    def arrays(self, array: np.ndarray) -> np.ndarray:
        """Returns the arrays of all ranks, concatenated along the first axis."""
        return array

    def stopped(self, guard: Any) -> bool:
        """Whether all ranks know of a received signal."""
        return guard is not None and guard.received is not None

    def agree(self, control: Any, guard: Any) -> None:
        """Shares signals among all ranks, and adopts rank 0's decisions."""

    def begin(self, model: Any, draw: Callable[[], Any], bucket_mb: float) -> None:
        """Prepares for training: see :meth:`Team.begin`."""

    def check(self) -> None:
        """Raises if the device has waited for a lost rank: its results are invalid."""

    def merged(self, values: list[Any]) -> list[Any]:
        """Returns a value for each batch of a step; those of other ranks are None."""
        return values

    def turns(self, shares: list[float], log: Any = None) -> Iterator[int]:
        """Yields the indices of this rank's batches of a step.

        Args:
            shares: of each batch in the step's loss.
            log: receives the losses given to :meth:`record` on all ranks, in the order
                of the batches.
        """
        yield from range(len(shares))

    def record(self, log: Any, loss: Any, share: float) -> None:
        """Records a batch's loss and its share of the step's loss."""
        log.add_loss(loss, share)

    def backward(self, loss: Any) -> None:
        """Adds the gradient of this turn's batch."""
        loss.backward()

    def combine(self, sums: Any, go_on: bool) -> None:
        """Adds the results of other ranks' batches."""

    def report(
        self, bad: int | None, make: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """Returns the report of a non-finite step, from the rank of the bad batch."""
        return make()
