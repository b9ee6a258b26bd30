"""Admits the processes of a run; strangers are rejected without delaying others."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import secrets
import selectors
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_MAGIC = "evolving-attention 2"
_LENGTH = struct.Struct("<I")
_LONGEST_GREETING = 4096  # bytes
_GREETING_SECONDS = 5.0  # for one connection, while others are served
_MOST_CALLERS = 256  # connections that have not greeted yet


class Refused(Exception):
    """The other side is not of this run, or a message does not follow the protocol."""


class Guest(NamedTuple):
    """A process that knows the secret; ``answer`` proves to it that we know it."""

    socket: socket.socket
    rank: int
    size: int
    place: tuple[str, int]
    answer: str


@dataclass
class _Caller:
    """A connection whose greeting has not arrived completely."""

    socket: socket.socket
    nonce: str
    until: float
    data: bytearray = field(default_factory=bytearray)
    missing: int = _LENGTH.size  # bytes of the length, then of the greeting

    def read(self) -> None:
        """Reads some of the missing bytes."""
        data = self.socket.recv(self.missing)
        if not data:
            raise ConnectionError("the connection ended")
        self.data += data
        self.missing -= len(data)
        if len(self.data) == _LENGTH.size:
            (self.missing,) = _LENGTH.unpack(self.data)
            if not 0 < self.missing <= _LONGEST_GREETING:
                raise Refused("no greeting of ours")


class Door:
    """Accepts connections to ``server`` and returns those with a valid greeting.

    Each connection gets a challenge. The greeting must be signed with the challenge and
    ``key``; other connections are closed. Connections are served concurrently: a silent
    one does not delay the others.

    Args:
        server: a listening socket.
        key: the secret shared by both sides; may be empty.
        until: the time at which :meth:`next` gives up.
    """

    def __init__(self, server: socket.socket, key: bytes, until: float) -> None:
        self.server, self.key, self.until = server, key, until
        self.refused = 0
        self._callers: dict[int, _Caller] = {}  # by descriptor, oldest first
        self._selector = selectors.DefaultSelector()
        server.setblocking(False)
        self._selector.register(server, selectors.EVENT_READ)

    def __enter__(self) -> Door:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for caller in self._callers.values():
            caller.socket.close()

    @staticmethod
    def signed(key: bytes, role: str, challenge: str, nonce: str, text: str) -> str:
        """Returns a proof of knowing ``key``, for one role in one connection."""
        message = json.dumps([role, challenge, nonce, text]).encode()
        return hmac.new(key, message, hashlib.sha256).hexdigest()

    def next(self) -> Guest:
        """Returns the next process that sends a valid greeting.

        Raises:
            Refused: none came in time.
        """
        while True:
            now = time.monotonic()
            if now > self.until:
                strangers = f"; {self.refused} others were refused" * bool(self.refused)
                raise Refused(f"timed out{strangers}")
            for key, _ in self._selector.select(min(0.2, self.until - now)):
                if key.fileobj is self.server:
                    self._accept()
                elif (caller := self._callers.get(key.fd)) and (
                    guest := self._hear(caller)
                ):
                    return guest
            for caller in list(self._callers.values()):
                if caller.until < time.monotonic():
                    self._refuse(caller)

    def _accept(self) -> None:
        try:
            sock, _ = self.server.accept()
        except OSError:  # the caller has gone
            return
        caller = _Caller(
            sock, secrets.token_hex(16), time.monotonic() + _GREETING_SECONDS
        )
        self._callers[sock.fileno()] = caller
        if len(self._callers) > _MOST_CALLERS:
            self._refuse(next(iter(self._callers.values())))
        sock.setblocking(False)
        self._selector.register(sock, selectors.EVENT_READ)
        try:
            say(sock, nonce=caller.nonce)
        except OSError:
            self._refuse(caller)

    def _hear(self, caller: _Caller) -> Guest | None:
        """Reads the data that arrived; returns the guest once its greeting is valid.

        Nothing beyond the greeting is read: it belongs to the transport.
        """
        try:
            caller.read()
            if caller.missing:
                return None
            guest = self._guest(caller, _parsed(caller.data[_LENGTH.size :]))
        except BlockingIOError:
            return None
        except (OSError, Refused):
            self._refuse(caller)
            return None
        del self._callers[caller.socket.fileno()]
        self._selector.unregister(caller.socket)
        caller.socket.setblocking(True)
        return guest

    def _guest(self, caller: _Caller, said: dict[str, Any]) -> Guest:
        """Checks a greeting: first its proof, then rank, size and place."""
        rank, size, place = said.get("rank"), said.get("size"), said.get("place")
        nonce = str(said.get("nonce"))
        who = json.dumps({"rank": rank, "size": size, "place": place})
        proof = self.signed(self.key, "greeting", caller.nonce, nonce, who)
        if not hmac.compare_digest(str(said.get("proof")).encode(), proof.encode()):
            raise Refused("the proof is wrong")
        match place:
            case [str(host), int(port)] if type(rank) is int and type(size) is int:
                answer = self.signed(self.key, "answer", caller.nonce, nonce, "")
                return Guest(caller.socket, rank, size, (host, port), answer)
        raise Refused("no greeting of ours")

    def _refuse(self, caller: _Caller) -> None:
        self.refused += 1
        del self._callers[caller.socket.fileno()]
        with contextlib.suppress(KeyError):  # not registered yet
            self._selector.unregister(caller.socket)
        caller.socket.close()


def say(sock: socket.socket, **values: Any) -> None:
    """Sends one message of a meeting."""
    data = json.dumps({"magic": _MAGIC, **values}).encode()
    sock.sendall(_LENGTH.pack(len(data)) + data)


def listen(sock: socket.socket, longest: int) -> dict[str, Any]:
    """Receives one message of a meeting.

    Raises:
        Refused: it does not follow the protocol, or exceeds ``longest`` bytes.
        OSError: the connection ended or timed out.
    """
    (length,) = _LENGTH.unpack(_exactly(sock, _LENGTH.size))
    if length > longest:
        raise Refused("what answers there is not this package")
    return _parsed(_exactly(sock, length))


def _parsed(data: bytes | bytearray) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or value.get("magic") != _MAGIC:
        raise Refused("what answers there is not this package")
    return value


def _exactly(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise ConnectionError("the connection ended")
        data += more
    return data
