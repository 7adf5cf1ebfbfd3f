"""Files of web servers: what is wrong with them is one error, and they come in time."""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from dicore.errors import UsageError
from dicore_tools import foreign


@pytest.fixture
def answers() -> Iterator[list[bytes]]:
    """What a server on this machine says, in parts; its address is the first when it is given."""
    parts: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                for part in parts[1:]:
                    time.sleep(0 if part else 0.5)
                    connection.sendall(part)

        thread = threading.Thread(target=serve, daemon=True)
        parts.append(f"http://127.0.0.1:{server.getsockname()[1]}/x".encode())
        thread.start()
        yield parts
        thread.join(5)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nshort",
        b"nothing of HTTP\r\n\r\n",
        b"",
    ],
    ids=["short", "chunk", "words", "silence"],
)
def test_an_answer_that_is_cut_off_is_one_error(answers: list[bytes], answer: bytes) -> None:
    answers.append(answer)
    with pytest.raises(UsageError, match="cannot be read"):
        foreign.fetch(answers[0].decode(), 1 << 20)


def test_what_comes_in_parts_is_whole(answers: list[bytes]) -> None:
    answers += [b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\n", b"a", b"bcd"]
    assert foreign.fetch(answers[0].decode(), 4) == b"abcd"


def test_a_server_that_is_too_slow_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """One byte a second never ends; 2 KiB a second may."""
    clock = iter(range(10**6))
    monkeypatch.setattr(foreign.time, "monotonic", lambda: float(next(clock)))
    with pytest.raises(UsageError, match="31 bytes in 31 s: it is too slow"):
        foreign.taken(lambda _: b"x", 1 << 20, None, "there")
    sent = iter([b"x" * 2048] * 60 + [b""])
    assert len(foreign.taken(lambda _: next(sent), 1 << 20, None, "there")) == 60 * 2048


def test_the_parts_of_a_slow_server_are_seen_as_they_come(
    answers: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "_PATIENCE_S", 0.2)
    answers += [b"HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\n", b"x", b""]
    came: list[bytes] = []
    with pytest.raises(UsageError, match="timed out"):
        foreign.fetch(answers[0].decode(), 9, came.append)
    assert came == [b"x"]


def test_a_head_that_comes_too_slowly_is_left(
    answers: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "_PATIENCE_S", 0.6)
    answers += [b"HTTP/1.0 200 OK\r\n", *([b"", b"A: b\r\n"] * 4)]
    with pytest.raises(UsageError, match="timed out"):
        foreign.fetch(answers[0].decode(), 9)


def test_an_answer_leads_to_web_servers_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "urlopen", lambda *_, **__: io.BytesIO(b"a file of ftp"))
    with pytest.raises(UsageError, match="not a web server"):
        foreign.fetch("http://127.0.0.1:1/x", 99)


def test_a_text_of_others_is_one_line() -> None:
    assert foreign.one_line("a\n\tb\x1b\u2028\u202ec\ud800d é") == "a b c d é"


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("sftp://bob:PASSW0RD@host/hub", "sftp://host/hub"),
        ("cache::sftp://bob:P@SS@host/hub", "cache::sftp://host/hub"),
        ("https://host/a?sig=1#x", "https://host/a"),
        ("hf://datasets/team/hub@main", "hf://datasets/team/hub@main"),
        ("here/a@b", "here/a@b"),
    ],
)
def test_an_address_is_shown_without_what_opens_it(place: str, shown: str) -> None:
    assert foreign.without_user(place) == shown
