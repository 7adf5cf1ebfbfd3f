"""Strangers at a listening process: what they get, and that who has the token is served."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from dicore_compat.comm import TcpQueue
from dicore_dist.links import http
from dicore_dist.links import lobby as module
from dicore_dist.links.http import HttpTransport
from dicore_dist.links.lobby import Lobby
from dicore_dist.links.wire import head_of
from dicore_plugins.messages import pack

TOKEN = "a token of the tests"
HUGE = (
    b"POST /task HTTP/1.1\r\nContent-Length: 268435456\r\nX-Dicore-Request: " + b"0" * 32
    + b"\r\nX-Dicore-Signature: " + b"0" * 64
)  # fmt: skip
SENT = (
    b"",
    b"P",
    b"\x00\xff" * 40,
    HUGE,
    HUGE + b"\r\n\r\n",
    b"dcF1\x00\x00\x0f\xff" + b"\x00" * 8,
)
"""What strangers send: nothing, a little, garbage, lengths without what they announce."""


class Strangers:
    """64 connections without a token; a thread adds a byte to each and renews those that end."""

    def __init__(self, port: int, count: int = 64) -> None:
        self._port, self._ended = port, threading.Event()
        self._held = [self._come(number) for number in range(count)]
        self._thread = threading.Thread(target=self._drip)
        self._thread.start()

    def _come(self, number: int) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self._port), timeout=200)
        with contextlib.suppress(OSError):
            made.sendall(SENT[number % len(SENT)])
        return made

    def _drip(self) -> None:
        while not self._ended.wait(0.02):
            for number, each in enumerate(self._held):
                try:
                    each.sendall(b"x")
                except OSError:
                    each.close()
                    with contextlib.suppress(OSError):
                        self._held[number] = self._come(number)

    def leave(self) -> None:
        self._ended.set()
        self._thread.join(60)
        for each in self._held:
            each.close()


@contextlib.contextmanager
def strangers(port: int) -> Iterator[Strangers]:
    made = Strangers(port)
    try:
        yield made
    finally:
        made.leave()


def test_requests_are_answered_among_strangers_and_close_is_bounded() -> None:
    """RELIABILITY E08."""
    server = HttpTransport(token=TOKEN)
    server.serve("double", lambda data: {"double": 2 * data["x"]})
    asked = HttpTransport(peer=server.address, token=TOKEN)
    with strangers(server.port):
        for number in range(50):
            assert asked.request("double", {"x": number}, timeout=200)["double"] == 2 * number
        assert len(server._door.lobby) <= 64
        begin = time.monotonic()
        server.close()
        assert time.monotonic() - begin < 30
    assert not [each for each in threading.enumerate() if each.name == "dicore-http"]


def test_messages_arrive_among_strangers_and_stop_is_bounded() -> None:
    """RELIABILITY E08: the honest process comes last."""
    first = TcpQueue(token=TOKEN)
    first.listen()
    with strangers(int(first.address.rpartition(":")[2])):
        second = TcpQueue("", [first.address], TOKEN, node=1)
        second.listen()
        assert second.wait_for_peers(1, 60) == 1
        second.subscribe("a")
        while not first.is_wanted("a"):
            time.sleep(0.01)
        first.publish("a", b"content")
        assert second.recv() == ("a", b"content")
        begin = time.monotonic()
        first.stop()
        assert time.monotonic() - begin < 30
        second.stop()


def test_who_proves_nothing_is_left_alone_after_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that drips a byte again and again, too."""
    monkeypatch.setattr(module, "PROOF_S", 0.3)
    server = HttpTransport(token=TOKEN)
    server.serve("x", dict)
    with socket.create_connection(("127.0.0.1", server.port), timeout=200) as made:
        begin = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - begin < 60:
                made.sendall(b"P")
                time.sleep(0.05)
        assert time.monotonic() - begin < 30
    server.close()


def test_no_body_of_a_stranger_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused by its headers, of which the signature is wrong."""
    read: list[int] = []
    monkeypatch.setattr("dicore_dist.links.http.read_body", lambda *args: read.append(args[2]))
    server = HttpTransport(token=TOKEN)
    server.serve("x", dict)
    with socket.create_connection(("127.0.0.1", server.port), timeout=200) as made:
        made.sendall(HUGE + b"\r\n\r\n" + bytes(1000))
        assert made.recv(100).startswith(b"HTTP/1.1 403")
    server.close()
    assert read == []


def test_a_full_lobby_closes_the_oldest_of_the_busiest_address() -> None:
    lobby = Lobby("a test", most=3)
    pairs = [socket.socketpair() for _ in range(4)]
    hosts = ["10.0.0.1", "10.0.0.2", "10.0.0.2", "10.0.0.3"]
    for (mine, _), host in zip(pairs, hosts, strict=True):
        lobby.enter(mine, (host, 1))
    assert len(lobby) == 3
    assert pairs[1][1].recv(1) == b""  # it has ended
    pairs[0][1].setblocking(False)
    with pytest.raises(BlockingIOError):
        pairs[0][1].recv(1)
    lobby.close()
    assert pairs[3][1].recv(1) == b""
    for pair in pairs:
        for each in pair:
            each.close()


def test_refusals_are_one_line_a_minute(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    lobby = Lobby("node 0")
    with caplog.at_level(logging.WARNING, "dicore.comm"):
        for number in range(100):
            lobby.refused((f"10.0.0.{number % 2}", 1), "no token")
        assert len(caplog.records) == 1
        monkeypatch.setattr(module, "_TOLD_S", 0.0)
        lobby.refused(("10.0.0.1", 1), "no token")
    assert "refused 100 connections of 2 addresses" in caplog.text


def test_a_peer_that_reads_no_answer_does_not_hold_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its token is right; its answer is larger than what the system keeps."""
    monkeypatch.setattr(http, "_CLOSE_S", 0.5)
    server = HttpTransport(token=TOKEN)
    begun = threading.Event()

    def answer(data: Mapping[str, Any]) -> Mapping[str, Any]:
        begun.set()
        return {"x": np.zeros(64 << 20, np.uint8)}

    server.serve("large", answer)
    server.serve("small", dict)
    asked = HttpTransport(peer=server.address, token=TOKEN)
    asked.request("small", {})
    body, headers = pack({}), {http._NUMBER: "2" * 32, http._VERSION: http.__version__}
    headers[http._STAMP] = asked._clock.stamp()
    headers |= asked._seal("large", headers, body)
    with socket.create_connection(("127.0.0.1", server.port), timeout=200) as made:
        made.sendall(head_of("POST /large HTTP/1.1", headers, len(body)) + body)
        assert begun.wait(60)
        begin = time.monotonic()
        server.close()
        assert time.monotonic() - begin < 30


def test_who_sends_much_is_ended_no_sooner_than_who_waits() -> None:
    """It would come again at once, and a thousand times a second."""
    server = HttpTransport(token=TOKEN)
    server.serve("nothing", dict)
    with socket.create_connection(("127.0.0.1", server.port), timeout=200) as made:
        begin = time.monotonic()
        with contextlib.suppress(OSError):
            made.sendall(b"GET /" + bytes(1 << 18))
            while made.recv(1 << 16):
                pass
        assert time.monotonic() - begin > 0.2
    server.close()
