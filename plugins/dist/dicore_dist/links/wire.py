"""Requests and responses of HTTP on a socket, with limits for their size and for the time."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from typing import Final

from dicore_dist.links.errors import PeerError
from dicore_dist.links.lobby import received
from dicore_plugins.messages import FrameError

__all__ = ["head_of", "parsed_head", "read_body", "read_head", "send", "size_of_body"]

MOST_BYTES: Final = 256 << 20
HEAD_BYTES: Final = 8192
_LEAST_RATE: Final = 1 << 20
_PATIENCE_S: Final = 30.0


def transfer_s(size: int) -> float:
    """Returns the most seconds that the transfer of a body may take."""
    return _PATIENCE_S + size / _LEAST_RATE


def parsed_head(data: bytes | bytearray) -> tuple[str, dict[str, str], bytes] | None:
    """Reads what stands before a body.

    Returns:
        The first line, the headers by name in small letters, and what came behind them; None: it
        is not complete.

    Raises:
        FrameError: this is not HTTP, or longer than 8 KiB.
    """
    if not b"POST /".startswith(data[:6]) and not b"HTTP/1".startswith(data[:6]):
        raise FrameError("not a request of dicore")
    head, end, rest = bytes(data).partition(b"\r\n\r\n")
    if len(head) >= HEAD_BYTES:
        raise FrameError(f"the head of a request is longer than {HEAD_BYTES} bytes")
    if not end:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or name in headers:
            raise FrameError("not a request of dicore")
        headers[name] = value.strip()
    return first, headers, rest


def read_head(sock: socket.socket, deadline: float) -> tuple[str, dict[str, str], bytes]:
    """Reads the head of a response; see `parsed_head`.

    Raises:
        PeerError: it is not complete by the deadline (`time.monotonic`).
    """
    data = b""
    while (found := parsed_head(data)) is None:
        data += received(sock, HEAD_BYTES, deadline)
    return found


def size_of_body(headers: Mapping[str, str]) -> int:
    """Returns the length of a body.

    Raises:
        FrameError: it is not told, or too large.
    """
    size = headers.get("content-length", "0")
    if not (size.isascii() and size.isdecimal()) or len(size) > 12 or int(size) > MOST_BYTES:
        raise FrameError(f"a body of {size[:20]} bytes is refused")
    return int(size)


def read_body(sock: socket.socket, rest: bytes, size: int) -> bytearray:
    """Reads a body of which `rest` has arrived already.

    Raises:
        FrameError: more has arrived than the body has.
        PeerError: it does not arrive in time.
    """
    if len(rest) > size:
        raise FrameError(f"{len(rest) - size} bytes follow a body of {size}")
    deadline = time.monotonic() + transfer_s(size)
    data, at = bytearray(size), len(rest)
    view = memoryview(data)
    view[:at] = rest
    while at < size:
        piece = received(sock, min(size - at, 1 << 20), deadline)
        view[at : at + len(piece)] = piece
        at += len(piece)
    return data


def head_of(first: str, headers: Mapping[str, str], size: int) -> bytes:
    """Returns what stands before a body."""
    lines = [first, *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, f"Content-Length: {size}", "Connection: close", "", ""]).encode()


def send(sock: socket.socket, head: bytes, body: bytes) -> None:
    """Sends a request or a response.

    Raises:
        PeerError: the peer does not read it in time, or the connection ended.
    """
    sock.settimeout(transfer_s(len(body)))
    try:
        if len(body) < 1 << 16:
            sock.sendall(head + body)
        else:
            sock.sendall(head)
            sock.sendall(body)
    except TimeoutError:
        raise PeerError("the peer does not read what is sent") from None
    except OSError as error:
        raise PeerError(f"the connection ended: {error}", context={"cut": True}) from error
