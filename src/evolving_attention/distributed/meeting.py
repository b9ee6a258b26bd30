"""Connects processes that know one address: a socket for every pair.

Rank 0 listens there; every other rank connects, sends its own address, and receives the
addresses of the others.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from typing import Any

from evolving_attention.distributed.launch import Launch
from evolving_attention.errors import BackendUnavailable

__all__ = ["meet"]

CONNECT_SECONDS = 120.0
_MAGIC = "evolving-attention 1"
_LONGEST = 1 << 20  # bytes of a greeting


def meet(launch: Launch) -> dict[int, socket.socket]:
    """One connected socket per peer.

    Raises:
        BackendUnavailable: rank 0 cannot listen, or not all processes came in time.
    """
    return _Meeting(launch).sockets()


class _Meeting:
    """Connects all processes; ends with a socket to every other rank."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.until = time.monotonic() + CONNECT_SECONDS

    def sockets(self) -> dict[int, socket.socket]:
        """One connected socket per peer."""
        launch = self.launch
        try:
            found = self._as_first() if launch.rank == 0 else self._as_other()
        except OSError as error:
            place = f"{launch.address}:{launch.port}"
            what = "listen at" if launch.rank == 0 else "reach rank 0 at"
            raise BackendUnavailable(
                f"distributed: rank {launch.rank} of {launch.size} cannot {what} "
                f"{place} ({error}), expected all {launch.size} processes there within "
                f"{CONNECT_SECONDS:.0f} s; check MASTER_ADDR and MASTER_PORT (a free "
                "port), and that every process has been started"
            ) from error
        for sock in found.values():
            sock.settimeout(None)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found

    def _as_first(self) -> dict[int, socket.socket]:
        launch = self.launch
        found: dict[int, socket.socket] = {}
        places: dict[int, Any] = {}
        with socket.create_server((launch.address, launch.port), backlog=128) as server:
            while len(found) < launch.size - 1:
                sock, said = self._accept(server)
                rank = said["rank"]
                if said["size"] != launch.size or rank in found or rank == 0:
                    found_rank = f"rank {rank} of {said['size']}"
                    raise OSError(f"{found_rank} came, of {launch.size} with one each")
                found[rank], places[rank] = sock, said["place"]
        for sock in found.values():
            _say(sock, {"places": {str(r): p for r, p in places.items()}})
        return found

    def _as_other(self) -> dict[int, socket.socket]:
        launch = self.launch
        first = self._connect((launch.address, launch.port))
        here = first.getsockname()[0]
        with socket.create_server((here, 0), backlog=128) as server:
            place = [here, server.getsockname()[1]]
            _say(first, {"rank": launch.rank, "size": launch.size, "place": place})
            first.settimeout(max(0.1, self.until - time.monotonic()))
            places = _listen(first)["places"]
            found = {0: first}
            for rank in range(1, launch.rank):
                host, port = places[str(rank)]
                found[rank] = self._connect((host, port))
                _say(found[rank], {"rank": launch.rank, "size": launch.size})
            while len(found) < launch.size - 1:
                sock, said = self._accept(server)
                found[said["rank"]] = sock
        return found

    def _accept(self, server: socket.socket) -> tuple[socket.socket, dict[str, Any]]:
        """Accept the next process of this run; refuse other connections."""
        while True:
            server.settimeout(max(0.1, self.until - time.monotonic()))
            sock, _ = server.accept()
            sock.settimeout(5)
            with contextlib.suppress(OSError, ValueError):
                return sock, _listen(sock)
            sock.close()

    def _connect(self, place: tuple[str, int]) -> socket.socket:
        """Connect; retry while the other side does not listen yet."""
        while True:
            try:
                return socket.create_connection(place, timeout=5)
            except OSError:
                if time.monotonic() > self.until:
                    raise
                time.sleep(0.05)


def _say(sock: socket.socket, value: dict[str, Any]) -> None:
    data = json.dumps({"magic": _MAGIC, **value}).encode()
    sock.sendall(struct.pack("<I", len(data)) + data)


def _listen(sock: socket.socket) -> dict[str, Any]:
    """What _say() said; a ValueError for anything else."""
    (length,) = struct.unpack("<I", _exactly(sock, 4))
    if length > _LONGEST:
        raise ValueError("no greeting of ours")
    value = json.loads(_exactly(sock, length))
    if not isinstance(value, dict) or value.get("magic") != _MAGIC:
        raise ValueError("no greeting of ours")
    return value


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise OSError("the connection ended")
        data += more
    return data
