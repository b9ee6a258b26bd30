"""Messages between processes over TCP, for launchers that set RANK and MASTER_ADDR.

Rank 0 listens at (MASTER_ADDR, MASTER_PORT) and tells all others where each of them
listens; then every pair has one connection. A message is a header (tag, length) and its
bytes; messages with the same tag arrive in the order in which they were sent. Only
processes that know EA_SECRET can connect (if it is set); nothing is encrypted.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import time
from collections import deque
from dataclasses import dataclass, field

from evolving_attention.distributed.launch import Launch
from evolving_attention.distributed.meeting import meet
from evolving_attention.errors import PeerLost

_HEADER = struct.Struct("<iQ")
_ALARM = -1  # tag of a peer's last message, the reason of its failure
_CHUNK = 1 << 20
_LONGEST = 1 << 40  # bytes of a message
_LONGEST_WORDS = 1 << 16  # bytes of the reason of a failure
_AHEAD = 64 << 20  # memory allocated for a message before its bytes arrive


@dataclass
class _Request:
    """A pending message; ``left`` is the part not transferred yet."""

    left: memoryview
    done: bool = False


@dataclass
class _Stored:
    """A message that arrived before it was requested; ``by``: the later request.

    ``data`` grows to ``length`` as bytes arrive: a header alone takes little memory.
    """

    length: int
    data: bytearray
    whole: bool = False
    by: _Request | None = None


@dataclass
class _Peer:
    """One connection: outgoing, requested, and unrequested incoming messages."""

    socket: socket.socket
    out: deque[tuple[memoryview, _Request | None]] = field(default_factory=deque)
    posted: dict[int, deque[_Request]] = field(default_factory=dict)
    early: dict[int, deque[_Stored]] = field(default_factory=dict)
    header: bytearray = field(default_factory=bytearray)
    tag: int = 0
    into: _Request | None = None  # destination of the incoming message
    stored: _Stored | None = None  # destination if it was not requested
    ended: bool = False
    words: str | None = None


class TcpTransport:
    """Point-to-point messages over one socket per peer.

    Raises:
        BackendUnavailable: rank 0 cannot listen, or not all processes came in time.
    """

    def __init__(self, launch: Launch) -> None:
        self.rank, self.size = launch.rank, launch.size
        self.failed = False
        sockets = meet(launch)
        self._peers = {rank: _Peer(sock) for rank, sock in sockets.items()}
        self._selector = selectors.DefaultSelector()
        for rank, peer in self._peers.items():
            peer.socket.setblocking(False)
            self._selector.register(peer.socket, selectors.EVENT_READ, rank)

    def send(self, peer: int, tag: int, buffer: memoryview) -> _Request:
        """Starts to send bytes; do not change the buffer until this is done."""
        request = _Request(buffer)
        to = self._peers[peer]
        to.out.append((memoryview(_HEADER.pack(tag, len(buffer))), None))
        to.out.append((buffer, request))
        self._write(peer)
        return request

    def receive(self, peer: int, tag: int, buffer: memoryview) -> _Request:
        """Starts to receive exactly as many bytes as the buffer has."""
        request, of = _Request(buffer), self._peers[peer]
        early = of.early.get(tag)
        if early:
            stored = early.popleft()
            _check_length(stored.length, len(buffer), peer)
            stored.by = request
            _hand_over(stored)
        else:
            of.posted.setdefault(tag, deque()).append(request)
        return request

    def progress(self, seconds: float = 0.0) -> None:
        """Processes messages; waits up to ``seconds`` for one of them to progress."""
        for key, events in self._selector.select(seconds):
            if events & selectors.EVENT_READ:
                self._read(key.data)
            if events & selectors.EVENT_WRITE:
                self._write(key.data)

    def alarm(self, text: str) -> None:
        """Tells all others why this process fails."""
        self.failed = True
        words = text.encode()[:_LONGEST_WORDS]
        for rank, peer in self._peers.items():
            peer.out.append(
                (memoryview(_HEADER.pack(_ALARM, len(words)) + words), None)
            )
            self._write(rank)
        until = time.monotonic() + 0.5
        while time.monotonic() < until and any(
            peer.out and not peer.ended for peer in self._peers.values()
        ):
            self.progress(0.01)

    def heard(self) -> dict[int, str]:
        """Returns the reasons of peers that failed; "" for those that left normally."""
        return {
            rank: peer.words or ""
            for rank, peer in self._peers.items()
            if peer.words is not None or peer.ended
        }

    def _write(self, rank: int) -> None:
        """Sends what the socket accepts now; the rest follows when it is writable."""
        peer = self._peers[rank]
        try:
            while peer.out and not peer.ended:
                data, request = peer.out[0]
                while len(data):
                    sent = peer.socket.send(data[:_CHUNK])
                    data = data[sent:]
                    peer.out[0] = (data, request)
                if request is not None:
                    request.done = True
                peer.out.popleft()
        except BlockingIOError:
            pass
        except OSError:  # the other side has ended; its earlier data is still readable
            with contextlib.suppress(PeerLost):
                self._read(rank)
            return self._end(peer)
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.out else 0)
        if not peer.ended and self._selector.get_key(peer.socket).events != wanted:
            self._selector.modify(peer.socket, wanted, rank)

    def _end(self, peer: _Peer) -> None:
        if not peer.ended:
            peer.ended = True
            self._selector.unregister(peer.socket)

    def _read(self, rank: int) -> None:
        """Receives the data that has arrived from one peer."""
        peer = self._peers[rank]
        try:
            while not peer.ended and self._read_some(rank, peer):
                pass
        except BlockingIOError:
            pass
        except PeerLost:
            raise
        except OSError:
            self._end(peer)

    def _read_some(self, rank: int, peer: _Peer) -> bool:
        """Advances the connection by a header, or by some bytes of a message."""
        if peer.into is None:
            data = peer.socket.recv(_HEADER.size - len(peer.header))
            if not data:
                self._end(peer)
                return False
            peer.header += data
            if len(peer.header) == _HEADER.size:
                tag, length = _HEADER.unpack(peer.header)
                peer.header = bytearray()
                self._expect(rank, peer, tag, length)
            return True
        count = peer.socket.recv_into(peer.into.left[: 4 * _CHUNK])
        if not count:
            self._end(peer)
            return False
        peer.into.left = peer.into.left[count:]
        self._finish_if_whole(peer)
        return True

    def _expect(self, rank: int, peer: _Peer, tag: int, length: int) -> None:
        """Chooses the buffer for the message whose header has just arrived."""
        most = _LONGEST_WORDS if tag == _ALARM else _LONGEST
        if tag < _ALARM or length > most:
            self._end(peer)
            raise PeerLost(
                f"distributed: rank {rank} announced {length} bytes with the tag "
                f"{tag}, expected at most {most} and a tag of this package; start all "
                "anew"
            )
        posted = peer.posted.get(tag)
        peer.tag, peer.stored = tag, None
        if posted:
            peer.into = posted.popleft()
            _check_length(length, len(peer.into.left), rank)
        else:
            peer.stored = _Stored(length, bytearray(min(length, _AHEAD)))
            peer.into = _Request(memoryview(peer.stored.data))
            if tag != _ALARM:
                peer.early.setdefault(tag, deque()).append(peer.stored)
        self._finish_if_whole(peer)

    def _finish_if_whole(self, peer: _Peer) -> None:
        if peer.into is None or len(peer.into.left):
            return
        if peer.stored is not None and len(peer.stored.data) < peer.stored.length:
            data, length = peer.stored.data, peer.stored.length
            peer.into.left.release()  # a bytearray with views cannot grow
            have = len(data)
            data.extend(bytes(min(have, length - have)))
            peer.into.left = memoryview(data)[have:]
            return
        peer.into.done = True
        if peer.stored is not None:
            peer.stored.whole = True
            if peer.tag == _ALARM:
                peer.words = peer.stored.data.decode(errors="replace")
            _hand_over(peer.stored)
        peer.into = peer.stored = None


def _hand_over(stored: _Stored) -> None:
    """Delivers a stored message to its request once it is complete."""
    if stored.whole and stored.by is not None:
        stored.by.left[:] = stored.data
        stored.by.done = True


def _check_length(came: int, awaited: int, peer: int) -> None:
    if came != awaited:
        raise PeerLost(
            f"distributed: rank {peer} sent {came} bytes where {awaited} were awaited, "
            "expected the same program and data on all ranks; restart all"
        )
