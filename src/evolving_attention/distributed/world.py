"""All processes of a run: data exchange, and detection of lost processes.

Every rank calls the same methods in the same order. A rank that waits watches the
others: if one has died, failed or left, the wait ends with an error.
"""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from collections.abc import Iterable
from typing import Any

import numpy as np

from evolving_attention.distributed.launch import Launch
from evolving_attention.errors import PeerLost

_HEAD, _BODY, _RAW, FIRST_FREE_TAG = 0, 1, 2, 16
_HEAD_BYTES = 512  # first message of a value
_LONGEST_VALUE = 1 << 30  # bytes of a value as JSON
_LOOK_SECONDS = 0.05  # interval between checks whether the others are alive
_GRACE_SECONDS = 0.3  # for data and reasons that a dead peer had sent
TIMEOUT = 1800.0  # as in torch; TrainingArguments.ddp_timeout


def bytes_of(array: np.ndarray) -> memoryview:
    """Returns the memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8).data


class World:
    """The processes of a run; this one is ``rank`` of ``size``.

    Attributes:
        local_rank, local_size: rank and size among the processes of this machine.
        near: the ranks on this machine.
        timeout: seconds without an answer after which a peer counts as lost.
    """

    def __init__(self, launch: Launch, transport: Any) -> None:
        self.rank, self.size = launch.rank, launch.size
        self.timeout = TIMEOUT
        self._transport, self._told = transport, False
        self._lock = threading.RLock()  # another thread may call lost()
        self._pids: dict[int, int] = {}  # process descriptors that we can watch
        self._names = [f"rank {rank}" for rank in range(self.size)]
        self._meet()

    @property
    def peers(self) -> list[int]:
        """The ranks of all others."""
        return [rank for rank in range(self.size) if rank != self.rank]

    def _meet(self) -> None:
        """Finds the other processes on this machine, and watches them."""
        cores = sorted(os.sched_getaffinity(0))
        here = {"host": socket.gethostname(), "space": _process_space()}
        found = self.values({**here, "pid": os.getpid(), "cores": cores})
        near = [r for r, x in enumerate(found) if {**x, **here} == x]
        self.local_rank, self.local_size = near.index(self.rank), len(near)
        self.near, self.cores = near, [found[rank]["cores"] for rank in near]
        for rank, other in enumerate(found):
            self._names[rank] = (
                f"rank {rank} (process {other['pid']} on {other['host']})"
            )
            if rank in near and rank != self.rank and hasattr(os, "pidfd_open"):
                try:
                    self._pids[rank] = os.pidfd_open(other["pid"])
                except OSError:  # not allowed or already ended: the transport sees it
                    continue

    # ------------------------------------------------------------------ messages

    def send(self, peer: int, tag: int, buffer: memoryview) -> Any:
        """Starts to send bytes; wait() for the request before changing them."""
        with self._lock:
            return self._transport.send(peer, tag, buffer)

    def receive(self, peer: int, tag: int, buffer: memoryview) -> Any:
        """Starts to receive as many bytes as the buffer has."""
        with self._lock:
            return self._transport.receive(peer, tag, buffer)

    def progress(self) -> None:
        """Processes messages without waiting."""
        self._progress()

    def _progress(self, seconds: float = 0.0) -> None:
        with self._lock:
            self._transport.progress(seconds)

    def wait(self, requests: Iterable[Any]) -> None:
        """Returns when all requests are done.

        Raises:
            PeerLost: a peer has died, failed or left, or does not answer.
        """
        left = [r for r in requests if not r.done]
        began = looked = time.monotonic()
        while left:
            self._progress(_LOOK_SECONDS)
            left = [r for r in left if not r.done]
            now = time.monotonic()
            if left and now - looked >= _LOOK_SECONDS:
                looked = now
                self._look(left)
                if now - began > self.timeout:
                    self._give_up(
                        f"the other ranks have not answered for {self.timeout:.0f} s; "
                        "look for one that hangs, or raise ddp_timeout"
                    )

    def _look(self, left: list[Any]) -> None:
        """Raises if a peer is lost and the awaited data does not arrive."""
        if not self._gone():
            return
        until = time.monotonic() + _GRACE_SECONDS
        while time.monotonic() < until:
            self._progress(0.02)
            left = [r for r in left if not r.done]
            if not left:
                return
        self._give_up(self._who_is_gone())

    def lost(self) -> str:
        """Returns a sentence naming the lost peers, or ""; callable in any thread."""
        self._progress()
        if not self._gone():
            return ""
        self._progress()  # a peer may have sent its reason and ended meanwhile
        return f"distributed: {self._who_is_gone()}"

    def _who_is_gone(self) -> str:
        for rank, reason in self._gone().items():
            if reason:
                return f"{self._names[rank]} gave up: {reason}"
        ended = " and ".join(self._names[rank] for rank in self._gone())
        return f"{ended} ended while rank {self.rank} waited for it"

    @property
    def failed(self) -> bool:
        """Whether this process has lost another one, or has failed."""
        return bool(self._transport.failed)

    def _gone(self) -> dict[int, str]:
        """Returns the lost peers and their reasons."""
        gone = dict.fromkeys(self._dead(), "")
        with self._lock:
            gone.update(self._transport.heard())
        return gone

    def _dead(self) -> list[int]:
        if not self._pids:
            return []
        poll = select.poll()
        for descriptor in self._pids.values():
            poll.register(descriptor, select.POLLIN)
        ended = {descriptor for descriptor, _ in poll.poll(0)}
        return [rank for rank, fd in self._pids.items() if fd in ended]

    def _give_up(self, reason: str) -> None:
        self._transport.failed = True
        raise PeerLost(f"distributed: {reason}")

    def alarm(self, text: str) -> None:
        """Tells the others, once, that this process fails, and why."""
        if not self._told:
            self._told = True
            with self._lock:
                self._transport.alarm(text)

    # ----------------------------------------------------------------- exchanges

    def values(self, value: Any) -> list[Any]:
        """Returns the values of all ranks, by rank; they must be JSON-serialisable."""
        data = json.dumps(value).encode()
        heads = np.zeros((self.size, _HEAD_BYTES), np.uint8)
        heads[self.rank, :8] = np.frombuffer(len(data).to_bytes(8, "little"), np.uint8)
        first = data[: _HEAD_BYTES - 8]
        heads[self.rank, 8 : 8 + len(first)] = np.frombuffer(first, np.uint8)
        self._to_all(_HEAD, bytes_of(heads[self.rank]), list(map(bytes_of, heads)))
        lengths = [int.from_bytes(head[:8].tobytes(), "little") for head in heads]
        most = max(lengths)
        if most > _LONGEST_VALUE:
            self._give_up(
                f"rank {lengths.index(most)} announced a value of {most} bytes, "
                f"expected at most {_LONGEST_VALUE}; restart all"
            )
        bodies = [bytearray(max(0, n - _HEAD_BYTES + 8)) for n in lengths]
        rest = memoryview(data[_HEAD_BYTES - 8 :])
        self._to_all(_BODY, rest, [memoryview(body) for body in bodies])
        bodies[self.rank] = bytearray(rest)
        return [
            json.loads(head[8 : 8 + n].tobytes()[: _HEAD_BYTES - 8] + body)
            for head, n, body in zip(heads, lengths, bodies, strict=True)
        ]

    def _to_all(self, tag: int, own: memoryview, theirs: list[memoryview]) -> None:
        """Sends ``own`` to all others and receives theirs."""
        self.wait(self._begin_to_all(tag, own, theirs))

    def _begin_to_all(
        self, tag: int, own: memoryview, theirs: list[memoryview]
    ) -> list[Any]:
        """Starts an exchange and returns its requests; empty arrays are not sent."""
        requests = []
        for peer in self.peers:
            if len(theirs[peer]):
                requests.append(self.receive(peer, tag, theirs[peer]))
            if len(own):
                requests.append(self.send(peer, tag, own))
        return requests

    def arrays(self, own: list[np.ndarray | None]) -> list[list[np.ndarray | None]]:
        """Returns the arrays of all ranks; each passes the same number, some None."""
        mine = [None if x is None else np.ascontiguousarray(x) for x in own]
        kinds = [None if x is None else [x.dtype.name, list(x.shape)] for x in mine]
        found = [
            [None if kind is None else _empty(*kind) for kind in theirs]
            for theirs in self.values(kinds)
        ]
        found[self.rank] = mine
        requests = []
        for place in range(len(mine)):
            column = [theirs[place] for theirs in found]
            buffers = [memoryview(b"") if x is None else bytes_of(x) for x in column]
            requests += self._begin_to_all(_RAW, buffers[self.rank], buffers)
        self.wait(requests)
        return found

    def broadcast(self, array: np.ndarray) -> None:
        """Overwrites a contiguous array with rank 0's; same shape and type on all."""
        buffer = bytes_of(array)
        if self.rank == 0:
            self.wait([self.send(peer, _RAW, buffer) for peer in self.peers])
        else:
            self.wait([self.receive(0, _RAW, buffer)])


def _empty(name: str, shape: list[int]) -> np.ndarray:
    """Returns an empty array of a type given by name, including bfloat16."""
    import ml_dtypes

    kind = getattr(ml_dtypes, name, None) if name == "bfloat16" else name
    return np.empty(shape, np.dtype(kind))


def _process_space() -> str:
    """Returns the namespace of process ids, which are valid only within it."""
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return str(os.getpid())
