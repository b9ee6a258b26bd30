"""Messages between processes over MPI, through mpi4py."""

from __future__ import annotations

import atexit
import contextlib
import sys
import time
from typing import Any

from evolving_attention.distributed.launch import Launch
from evolving_attention.errors import BackendUnavailable, require

_LARGEST = 1 << 30  # bytes of one MPI message, whose counts are 32 bits wide
_SHORTEST_SLEEP, _LONGEST_SLEEP = 2e-5, 1e-3


class _Request:
    """A pending message, in one or more pieces."""

    def __init__(self, parts: list[Any], buffer: Any) -> None:
        self.parts, self.buffer = parts, buffer

    @property
    def done(self) -> bool:
        return not self.parts


class MpiTransport:
    """Point-to-point messages over its own communicators.

    Raises:
        MissingExtraError: mpi4py is not installed.
        BackendUnavailable: mpi4py finds no MPI, or not the one of this mpirun.
    """

    def __init__(self, launch: Launch) -> None:
        self.rank, self.size = launch.rank, launch.size
        self._mpi = mpi = _load(launch)
        world = mpi.COMM_WORLD
        if (world.Get_rank(), world.Get_size()) != (launch.rank, launch.size):
            raise BackendUnavailable(
                f"distributed: mpirun says process {launch.rank} of {launch.size}, the "
                f"MPI that mpi4py uses says {world.Get_rank()} of {world.Get_size()}, "
                "expected one MPI for both; start with the mpirun of that MPI (with "
                'the wheels of "evolving-attention[distributed]" the one next to this '
                "python), or install mpi4py for this one"
            )
        self._comm, self._alarm = world.Dup(), world.Dup()
        self._open: list[_Request] = []
        self._told: list[Any] = []
        self._words: dict[int, str] = {}
        self.failed = False
        atexit.register(self._leave)

    def send(self, peer: int, tag: int, buffer: memoryview) -> _Request:
        """Starts to send bytes; do not change the buffer until this is done."""
        return self._begin(self._comm.Isend, peer, tag, buffer)

    def receive(self, peer: int, tag: int, buffer: memoryview) -> _Request:
        """Starts to receive exactly as many bytes as the buffer has."""
        return self._begin(self._comm.Irecv, peer, tag, buffer)

    def _begin(self, call: Any, peer: int, tag: int, buffer: memoryview) -> _Request:
        pieces = [buffer[i : i + _LARGEST] for i in range(0, len(buffer), _LARGEST)]
        byte = self._mpi.BYTE
        request = _Request([call([p, byte], peer, tag) for p in pieces], buffer)
        self._open.append(request)
        return request

    def progress(self, seconds: float = 0.0) -> None:
        """Processes messages; waits up to ``seconds`` for one of them to finish."""
        until, pause = time.monotonic() + seconds, _SHORTEST_SLEEP
        while True:
            ended = False
            for request in self._open:
                request.parts = [part for part in request.parts if not part.Test()]
                ended = ended or request.done
            if ended:
                self._open = [r for r in self._open if not r.done]
                return
            if time.monotonic() >= until:
                return
            time.sleep(pause)  # gives the core to a peer that still computes
            pause = min(2 * pause, _LONGEST_SLEEP)

    def alarm(self, text: str) -> None:
        """Tells all others why this process fails."""
        self.failed = True
        for peer in range(self.size):
            if peer != self.rank:
                message = bytearray(text.encode())
                with contextlib.suppress(self._mpi.Exception):
                    request = self._alarm.Isend([message, self._mpi.BYTE], peer)
                    self._told.append((request, message))
        until = time.monotonic() + 0.5
        while time.monotonic() < until:
            if all(request.Test() for request, _ in self._told):
                return
            time.sleep(0.01)

    def heard(self) -> dict[int, str]:
        """Returns the reasons of peers that failed; "" for those that left normally."""
        status = self._mpi.Status()
        while self._alarm.Iprobe(status=status):
            message = bytearray(status.Get_count(self._mpi.BYTE))
            self._alarm.Recv([message, self._mpi.BYTE], status.Get_source())
            self._words[status.Get_source()] = message.decode(errors="replace")
        return self._words

    def _leave(self) -> None:
        """Finalizes MPI at process exit, unless that would wait for lost ranks."""
        if self.failed or self._mpi.Is_finalized():
            return
        self.alarm("")
        self._mpi.Finalize()


def _load(launch: Launch) -> Any:
    """Returns the module mpi4py.MPI, initialized."""
    why = f"to reach the other {launch.size - 1} processes that mpirun started"
    package = require("mpi4py", extra="distributed", why=why)
    if "mpi4py.MPI" not in sys.modules:
        package.rc.finalize = False  # done by _leave, and not after a failure
    try:
        return require("mpi4py.MPI", extra="distributed", why=why)
    except RuntimeError as error:  # on import, the wheel looks for an MPI library
        raise BackendUnavailable(
            f"distributed: mpi4py finds no MPI library ({error}), expected Open MPI, "
            "MPICH or Intel MPI; install the system's, or the one of the wheels: "
            'pip install "evolving-attention[distributed]"'
        ) from error
