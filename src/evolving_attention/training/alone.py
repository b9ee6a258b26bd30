"""What a Trainer asks of the other processes of its run, answered where there are none.

:mod:`.parallel` has those of several.
"""

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
        """Threads of the core; None leaves them as they are."""
        return wanted

    def device(self, args: Any) -> str:
        """The name of the device that the arguments ask for."""
        return "cpu" if args.use_cpu else str(args.device)

    def watching(self, output_dir: str) -> contextlib.AbstractContextManager[None]:
        """Around everything in which ranks wait for each other."""
        return contextlib.nullcontext()

    def check_same(self, what: str, value: Any, remedy: str) -> None:
        """Refuse to go on when another rank's value differs from rank 0's."""

    def compare_start(self, path: Path | None, fingerprint: dict[str, Any]) -> None:
        """Refuse ranks that would train something else than rank 0."""

    def first(self, value: Any) -> Any:
        """Rank 0's value; of those that JSON can hold."""
        return value

    def gather(self, values: list[Any]) -> list[Any]:
        """The lists of all ranks, one after another."""
        return values

    def arrays(self, array: np.ndarray) -> np.ndarray:
        """The arrays of all ranks, one after another along the first axis."""
        return array

    def stopped(self, guard: Any) -> bool:
        """Whether a signal has come that all ranks know of."""
        return guard is not None and guard.received is not None

    def agree(self, control: Any, guard: Any) -> None:
        """Let all ranks know of signals, and decide as rank 0 does."""

    def begin(self, model: Any, draw: Callable[[], Any], bucket_mb: float) -> None:
        """Prepare for training: see :meth:`Team.begin`."""

    def check(self) -> None:
        """Refuse results of a device that has waited for a rank which is gone."""

    def turns(self, batches: int, log: Any = None) -> Iterator[int]:
        """The indices of a step's batches that are this rank's.

        ``log`` gets what :meth:`record` is told, of all ranks in the order of batches.
        """
        yield from range(batches)

    def record(self, log: Any, loss: Any, share: float) -> None:
        """Note a batch's loss, of which the step's loss has such a share."""
        log.add_loss(loss, share)

    def backward(self, loss: Any) -> None:
        """Add the gradient of the batch of this turn."""
        loss.backward()

    def combine(self, sums: Any, go_on: bool) -> None:
        """Add what other ranks' batches gave."""

    def report(
        self, bad: int | None, make: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        """The report of a step that is not finite, by the rank of the bad batch."""
        return make()
