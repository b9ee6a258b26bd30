"""TCP connections of a run: strangers do not get in, and cost no time or memory."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
from helpers_distributed import free_port

from evolving_attention.distributed import meeting, tcp
from evolving_attention.distributed.door import Door, Refused, listen, say
from evolving_attention.distributed.launch import Launch, from_environment
from evolving_attention.errors import BackendUnavailable, ConfigError, PeerLost

SECRET = "known to the ranks alone"


def launch(rank: int, size: int, port: int, secret: str = SECRET) -> Launch:
    return Launch(rank, size, "tcp", "127.0.0.1", port, secret)


class Ranks:
    """Ranks of a run, as threads instead of processes."""

    def __init__(self, *launches: Launch) -> None:
        self.found: dict[int, Any] = {}
        self.threads = [threading.Thread(target=self.meet, args=(x,)) for x in launches]
        for thread in self.threads:
            thread.start()

    def meet(self, one: Launch) -> None:
        try:
            self.found[one.rank] = meeting.meet(one)
        except Exception as error:
            self.found[one.rank] = error

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *error: object) -> None:
        for thread in self.threads:
            thread.join()
        for sockets in self.found.values():
            if isinstance(sockets, dict):
                for sock in sockets.values():
                    sock.close()

    def wait(self) -> dict[int, Any]:
        for thread in self.threads:
            thread.join(20)
        return self.found


def connected(port: int) -> socket.socket:
    until = time.monotonic() + 5
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=5)
        except OSError:
            assert time.monotonic() < until
            time.sleep(0.02)


def greeting(**values: Any) -> bytes:
    data = json.dumps({"magic": "evolving-attention 2", **values}).encode()
    return struct.pack("<I", len(data)) + data


STRANGERS = {
    "silent": b"",
    "half a length": b"\x10",
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "64 GB": struct.pack("<I", 2**32 - 1) + b"{",
    "half a greeting": struct.pack("<I", 100) + b"{",
    "no JSON": struct.pack("<I", 4) + b"\xff{{{",
    "a list": struct.pack("<I", 2) + b"[]",
    "deep": struct.pack("<I", 4000) + b"[" * 4000,
    "no rank": greeting(),
    "no proof": greeting(rank=1, size=3, place=["127.0.0.1", 1]),
    "odd proof": greeting(rank=1, size=3, place=["127.0.0.1", 1], proof="ü"),
    "of rank 0": greeting(rank=0, size=3, place=["127.0.0.1", 1], proof=""),
}


@pytest.mark.parametrize("secret", [SECRET, ""])
def test_strangers_at_the_port_of_rank_0(secret: str) -> None:
    port = free_port()
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        ranks = stack.enter_context(Ranks(launch(0, 3, port, secret)))
        for _ in range(5):
            for data in STRANGERS.values():
                sock = stack.enter_context(connected(port))
                sock.sendall(data)
        more = Ranks(*(launch(rank, 3, port, secret) for rank in (1, 2)))
        stack.enter_context(more)
        found = {**ranks.wait(), **more.wait()}
        assert {rank: sorted(found[rank]) for rank in range(3)} == {
            0: [1, 2],
            1: [0, 2],
            2: [0, 1],
        }
        for rank in range(3):  # each connection leads to the rank it claims
            for peer, sock in found[rank].items():
                sock.sendall(bytes([rank, peer]))
        for rank in range(3):
            for peer, sock in found[rank].items():
                assert sock.recv(2) == bytes([peer, rank])
    assert time.monotonic() - began < 10


def test_another_secret_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port()
    with Ranks(launch(0, 2, port)) as first:
        with Ranks(launch(1, 2, port, "the secret of another run")) as other:
            error = other.wait()[1]
        assert isinstance(error, BackendUnavailable)
        assert "another EA_SECRET, or another run?" in str(error)
        assert "check MASTER_ADDR" in str(error)
        with Ranks(launch(1, 2, port)) as right:
            assert list(right.wait()[1]) == [0]
        assert list(first.wait()[0]) == [1]
    monkeypatch.setattr(meeting, "CONNECT_SECONDS", 0.3)
    port = free_port()
    with Ranks(launch(0, 2, port)) as first, connected(port) as stranger:
        stranger.sendall(STRANGERS["no proof"])
        error = first.wait()[0]
    assert isinstance(error, BackendUnavailable)
    assert "(timed out; 1 others were refused)" in str(error)


def test_nobody_replaces_rank_0() -> None:
    """A later peer cannot claim to be rank 0 or a rank that is already connected."""
    port = free_port()
    with (
        socket.create_server(("127.0.0.1", port)) as server,
        Ranks(launch(1, 3, port)) as ranks,
        Door(server, SECRET.encode(), time.monotonic() + 10) as door,
    ):
        guest = door.next()
        places = {1: guest.place, 2: ("127.0.0.1", 1)}
        say(guest.socket, places=places, password="p", proof=guest.answer)
        key = (SECRET + "p").encode()
        for rank, signed_by in [
            (0, key),  # rank 0 is already connected
            (1, key),
            (3, key),
            (-1, key),
            (2, SECRET.encode()),  # without the password of rank 0
        ]:
            with connected(guest.place[1]) as sock:
                greet(sock, rank, signed_by)
                with contextlib.suppress(ConnectionError):
                    assert sock.recv(1) == b""
        sock = connected(guest.place[1])
        greet(sock, 2, key, b"message")  # not part of the greeting
        found = ranks.wait()[1]
        assert found[2].recv(10) == b"message"
        assert sorted(found) == [0, 2]
        assert found[0].getpeername() == guest.socket.getsockname()
        sock.close()
        guest.socket.close()


def greet(sock: socket.socket, rank: int, key: bytes, more: bytes = b"") -> None:
    who = {"rank": rank, "size": 3, "place": ["127.0.0.1", 1]}
    challenge = listen(sock, 4096)["nonce"]
    proof = Door.signed(key, "greeting", challenge, "n", json.dumps(who))
    sock.sendall(greeting(**who, nonce="n", proof=proof) + more)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"places": {}, "password": "p"}, "does not know this run's EA_SECRET"),
        ({"proof": True}, "its answer is no list of addresses"),
        ({"proof": True, "places": [], "password": ""}, "is no list of addresses"),
        ({"proof": True, "places": {"1": 3}, "password": ""}, "is no list of addr"),
        ({"proof": True, "places": {"1": ["a", 1]}, "password": ""}, "lacks rank 2"),
    ],
)
def test_a_stranger_in_the_place_of_rank_0(answer: dict[str, Any], words: str) -> None:
    port = free_port()
    with (
        socket.create_server(("127.0.0.1", port)) as server,
        Ranks(launch(1, 3, port)) as ranks,
    ):
        knows = SECRET.encode()
        with Door(server, knows, time.monotonic() + 10) as door:
            guest = door.next()
        proof = guest.answer if answer.get("proof") else "guessed"
        say(guest.socket, **{**answer, "proof": proof})
        error = ranks.wait()[1]
        guest.socket.close()
    assert isinstance(error, BackendUnavailable)
    assert words in str(error)


def test_something_else_at_the_port() -> None:
    port = free_port()
    with (
        socket.create_server(("127.0.0.1", port)) as server,
        Ranks(launch(1, 2, port)) as ranks,
    ):
        sock, _ = server.accept()
        sock.sendall(b"220 mail.example.org ESMTP\r\n" * 10)
        error = ranks.wait()[1]
        sock.close()
    assert isinstance(error, BackendUnavailable)
    assert "what answers there is not this package" in str(error)


def test_a_greeting_that_never_ends() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        Door(server, b"", time.monotonic() + 0.2) as door,
        socket.create_connection(server.getsockname()),
        pytest.raises(Refused, match="timed out"),
    ):
        door.next()


def test_a_short_secret_is_refused() -> None:
    variables = {
        "RANK": "0",
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",
    }
    with pytest.raises(ConfigError, match="EA_SECRET has 3 characters, expected at le"):
        from_environment({**variables, "EA_SECRET": "abc"})
    found = from_environment({**variables, "EA_SECRET": SECRET})
    assert found is not None
    assert found.secret == SECRET
    assert SECRET not in repr(found)


@pytest.fixture
def transport(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[tcp.TcpTransport, socket.socket]]:
    ours, theirs = socket.socketpair()
    monkeypatch.setattr(tcp, "meet", lambda launch: {1: ours})
    yield tcp.TcpTransport(launch(0, 2, 1)), theirs
    ours.close()
    theirs.close()


HEADER = struct.Struct("<iQ")


def test_a_header_alone_takes_little_memory(
    transport: tuple[tcp.TcpTransport, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = transport
    monkeypatch.setattr(tcp, "_AHEAD", 1 << 20)
    tracemalloc.start()
    try:
        theirs.sendall(HEADER.pack(16, 64 << 30) + b"x" * 1000)
        ours.progress(1.0)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "header", [(16, 2**63), (16, (1 << 40) + 1), (-1, (1 << 16) + 1), (-2, 1)]
)
def test_impossible_headers(
    header: tuple[int, int], transport: tuple[tcp.TcpTransport, socket.socket]
) -> None:
    ours, theirs = transport
    theirs.sendall(HEADER.pack(*header))
    with pytest.raises(PeerLost, match=r"rank 1 announced .* expected at most"):
        ours.progress(1.0)
    assert ours.heard() == {1: ""}


def test_last_words_are_read_where_sending_fails(
    transport: tuple[tcp.TcpTransport, socket.socket],
) -> None:
    ours, theirs = transport
    theirs.sendall(HEADER.pack(-1, 3) + b"why")
    theirs.close()
    ours.send(1, 16, memoryview(b"data"))
    assert ours.heard() == {1: "why"}


@pytest.mark.parametrize("length", [0, 1, 100, 101, 1000, 1024, 5003])
def test_a_message_that_nobody_asked_for_yet(
    length: int,
    transport: tuple[tcp.TcpTransport, socket.socket],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tcp, "_AHEAD", 100)
    ours, theirs = transport
    data = bytes(i % 251 for i in range(length))
    theirs.sendall(HEADER.pack(16, length) + data[: length // 2])
    ours.progress(0.2)
    into = bytearray(length)
    request = ours.receive(1, 16, memoryview(into))
    theirs.sendall(data[length // 2 :] + HEADER.pack(17, 3) + b"end")
    last = ours.receive(1, 17, memoryview(bytearray(3)))
    while not last.done:
        ours.progress(1.0)
    assert request.done
    assert into == data
