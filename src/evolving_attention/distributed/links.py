"""Exchanges gradients between the ranks' devices, and watches for lost ranks.

A device that waits for a lost rank would wait for ever, and so would its host. So a
thread watches the other ranks during an exchange and aborts it. The results are then
invalid: call :meth:`Links.check` after every synchronisation with the device, before
its results are used.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import Any

from evolving_attention.distributed.world import World
from evolving_attention.errors import (
    BackendUnavailable,
    ConfigError,
    Error,
    PeerLost,
)

_LOOK_SECONDS = 0.05
_GRACE_SECONDS = 0.5  # for data that a rank sent before it ended

_made: dict[str, Links] = {}


def device_of_rank(world: World, name: str) -> str:
    """Returns the GPU of this rank: its index is the rank on this machine.

    The index is 0 if the launcher gives every rank of a machine its own GPUs.

    Raises:
        ConfigError: the name is not "cuda", or a machine has fewer GPUs than ranks.
        BackendUnavailable: a rank has no usable GPU, or no NCCL.
    """
    from evolving_attention import _core

    if name != "cuda":
        raise ConfigError(
            f"TrainingArguments: device={name!r} with {world.size} processes, expected "
            "'cuda' (every process takes a GPU of its own) or 'cpu'"
        )
    shown = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    found = world.values([_count(_core), shown, _missing(_core)])
    for rank, (_, _, reason) in enumerate(found):
        if reason:
            raise BackendUnavailable(f"distributed: rank {rank}: {reason}")
    near = [found[rank] for rank in world.near]
    own = world.local_size > 1 and len({shown for _, shown, _ in near}) == len(near)
    place = 0 if own else world.local_rank
    every = world.values([found[world.rank][0], place, world.local_size])
    for rank, (count, wanted, ranks) in enumerate(every):
        if wanted >= count:
            raise ConfigError(
                f"distributed: device='cuda' with {ranks} processes on the machine of "
                f"rank {rank}, which sees {count} GPU{'s' * (count != 1)}, expected "
                "one for each process; start fewer there, or show more by "
                "CUDA_VISIBLE_DEVICES"
            )
    return f"cuda:{place}"


def _count(core: Any) -> int:
    return sum(name.startswith("cuda:") for name, _ in core.devices())


def _missing(core: Any) -> str:
    """Returns why this process cannot exchange data from a GPU; else ""."""
    reason = core.unusable_devices().get("cuda", "")
    if reason:
        return f"cuda:0 is not available: {reason}"
    try:
        core.exchange_library("cuda")
    except BackendUnavailable as error:
        return str(error)
    return ""


def links(world: World, device: str) -> Links:
    """Returns the links of this process; all ranks create them at the first call."""
    if device not in _made:
        _made[device] = Links(world, device)
        atexit.register(_made[device].close)
    return _made[device]


class Links:
    """A communicator between the ranks' devices.

    Attributes:
        ranks: the communicator, for the core.

    Raises:
        PeerLost: a rank ended during the connection.
        Error: NCCL cannot connect the devices, with its reason.
    """

    def __init__(self, world: World, device: str) -> None:
        self.world, self.device = world, device
        self.reason = ""
        self.ranks = self._connect()
        self._closed = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="watch over ranks", daemon=True
        )
        self._thread.start()

    def _connect(self) -> Any:
        """Creates the communicator in a thread, as this blocks until all ranks join."""
        from evolving_attention import _core

        world = self.world
        made: list[Any] = []
        first = _core.communicator_id(self.device).hex() if world.rank == 0 else ""
        name = bytes.fromhex(world.values(first)[0])

        def make() -> None:
            try:
                made.append(
                    _core.Communicator(self.device, world.size, world.rank, name)
                )
            except BaseException as error:
                made.append(error)

        thread = threading.Thread(target=make, name="meeting of ranks", daemon=True)
        thread.start()
        while thread.is_alive():
            thread.join(_LOOK_SECONDS)
            lost = world.lost()
            if lost:
                thread.join(_GRACE_SECONDS)
                if thread.is_alive():
                    raise PeerLost(world.lost())
        if isinstance(made[0], BaseException):
            raise made[0]
        return made[0]

    def check(self) -> None:
        """Rejects results computed by the device after a rank was lost.

        Raises:
            PeerLost: the exchange was aborted; the message has the reason.
        """
        reason = self.reason or self._failure()
        if reason:
            raise PeerLost(reason)

    def _failure(self) -> str:
        failure = self.ranks.failure()
        return f"distributed: NCCL says: {failure}" if failure else ""

    def end(self) -> None:
        """Aborts all exchanges, since this rank fails."""
        self._closed.set()
        self.ranks.abort()

    def close(self) -> None:
        """Closes at the end of the process; aborts if ranks were lost."""
        self._closed.set()
        self._thread.join(2 * _GRACE_SECONDS)  # before the interpreter ends
        if self.reason or self.world.failed:
            self.ranks.abort()
        else:
            self.ranks.close()

    def _watch(self) -> None:
        while not self._closed.wait(_LOOK_SECONDS):
            try:
                reason = self._what_is_wrong()
            except Error as error:  # the device itself has failed
                reason = str(error)
            if reason:
                self.reason = reason
                self._closed.set()
                self.ranks.abort()

    def _what_is_wrong(self) -> str:
        """Returns why the current exchange cannot finish, or ""."""
        failure = self._failure()
        if failure:
            return failure
        waited = self.ranks.busy()
        lost = bool(waited and self.world.lost())
        if lost and not self._closed.wait(_GRACE_SECONDS) and self.ranks.busy():
            return self.world.lost()  # with reasons that arrived meanwhile
        if waited > self.world.timeout:
            return (
                f"distributed: {self.device} has waited {waited:.0f} s for the other "
                "ranks; look for one that hangs, or raise ddp_timeout"
            )
        return ""
