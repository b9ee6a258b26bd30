"""Connects processes that know one address, with a socket for every pair.

Rank 0 listens there. Every other rank connects, sends its own address, and receives the
addresses of the others and a password for the connections between them. A connecting
rank proves that it knows the run's secret (``EA_SECRET``) without sending it, and rank
0 proves it to the others.
"""

from __future__ import annotations

import hmac
import json
import secrets
import socket
import struct
import time
from typing import Any

from evolving_attention.distributed.door import Door, Refused, listen, say
from evolving_attention.distributed.launch import Launch
from evolving_attention.errors import BackendUnavailable

CONNECT_SECONDS = 120.0
_LONGEST_ANSWER = 1 << 20  # bytes: the addresses of all ranks


def meet(launch: Launch) -> dict[int, socket.socket]:
    """Returns one connected socket per peer.

    Raises:
        BackendUnavailable: rank 0 cannot listen, not all processes came in time, or
            another process does not know the run's secret.
    """
    return _Meeting(launch).sockets()


class _Meeting:
    """Connects all processes; results in a socket to every other rank."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.until = time.monotonic() + CONNECT_SECONDS

    def sockets(self) -> dict[int, socket.socket]:
        """Returns one connected socket per peer."""
        launch = self.launch
        try:
            found = self._as_first() if launch.rank == 0 else self._as_other()
        except (OSError, Refused, struct.error) as error:
            place = f"{launch.address}:{launch.port}"
            what = "listen at" if launch.rank == 0 else "reach rank 0 at"
            raise BackendUnavailable(
                f"distributed: rank {launch.rank} of {launch.size} cannot {what} "
                f"{place} ({error}), expected all {launch.size} processes there within "
                f"{CONNECT_SECONDS:.0f} s; check MASTER_ADDR and MASTER_PORT (a free "
                "port), that EA_SECRET is the same everywhere, and that every process "
                "has been started"
            ) from error
        for sock in found.values():
            sock.settimeout(None)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return found

    def _as_first(self) -> dict[int, socket.socket]:
        launch = self.launch
        found: dict[int, socket.socket] = {}
        places: dict[int, Any] = {}
        answers: dict[int, str] = {}
        with (
            socket.create_server((launch.address, launch.port), backlog=128) as server,
            Door(server, launch.secret.encode(), self.until) as door,
        ):
            while len(found) < launch.size - 1:
                guest = door.next()
                rank = guest.rank
                if guest.size != launch.size or rank in found or rank == 0:
                    raise Refused(
                        f"rank {rank} of {guest.size} came, of {launch.size} with one "
                        "each"
                    )
                found[rank], places[rank] = guest.socket, guest.place
                answers[rank] = guest.answer
        password = secrets.token_hex(16)
        for rank, sock in found.items():
            sock.settimeout(max(0.1, self.until - time.monotonic()))
            say(sock, places=places, password=password, proof=answers[rank])
        return found

    def _as_other(self) -> dict[int, socket.socket]:
        launch = self.launch
        first = self._connect((launch.address, launch.port))
        with socket.create_server((first.getsockname()[0], 0), backlog=128) as server:
            place = list(server.getsockname()[:2])
            places, password = self._greet_first(first, place)
            key = (launch.secret + password).encode()
            found = {0: first}
            for rank in range(1, launch.rank):
                found[rank] = self._connect(places[rank])
                self._greet(found[rank], key, place)
            with Door(server, key, self.until) as door:
                while len(found) < launch.size - 1:
                    guest = door.next()
                    # This rank connects to lower ranks itself; no rank may come twice.
                    if launch.rank < guest.rank < launch.size and (
                        guest.rank not in found
                    ):
                        found[guest.rank] = guest.socket
                    else:
                        guest.socket.close()
        return found

    def _greet_first(
        self, first: socket.socket, place: list[Any]
    ) -> tuple[dict[int, tuple[str, int]], str]:
        """Sends this rank's greeting; returns the others' addresses and password."""
        wanted = self._greet(first, self.launch.secret.encode(), place)
        try:
            answer = listen(first, _LONGEST_ANSWER)
        except ConnectionError as error:
            raise Refused(
                "it ended the connection; another EA_SECRET, or another run?"
            ) from error
        if not hmac.compare_digest(str(answer.get("proof")), wanted):
            raise Refused("the process there does not know this run's EA_SECRET")
        try:
            places = {
                int(k): (str(v[0]), int(v[1])) for k, v in answer["places"].items()
            }
            missing = set(range(1, self.launch.size)) - set(places)
            password = str(answer["password"])
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise Refused("its answer is no list of addresses") from error
        if missing:
            raise Refused(f"its list of addresses lacks rank {min(missing)}")
        return places, password

    def _greet(self, sock: socket.socket, key: bytes, place: list[Any]) -> str:
        """Answers the challenge of a Door; returns the proof expected from it."""
        sock.settimeout(max(0.1, self.until - time.monotonic()))
        challenge = str(listen(sock, _LONGEST_ANSWER).get("nonce"))
        own = secrets.token_hex(16)
        who = {"rank": self.launch.rank, "size": self.launch.size, "place": place}
        said = Door.signed(key, "greeting", challenge, own, json.dumps(who))
        say(sock, **who, nonce=own, proof=said)
        return Door.signed(key, "answer", challenge, own, "")

    def _connect(self, place: tuple[str, int]) -> socket.socket:
        """Connects; retries while the other side does not listen yet."""
        while True:
            try:
                return socket.create_connection(place, timeout=5)
            except OSError:
                if time.monotonic() > self.until:
                    raise
                time.sleep(0.05)
