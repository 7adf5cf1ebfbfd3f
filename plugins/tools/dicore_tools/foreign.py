"""What others wrote: text as one line that can be printed, and files of web servers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse, IncompleteRead
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from dicore.console import hide
from dicore.errors import UsageError

__all__ = ["Take", "fetch", "is_web", "one_line", "taken", "without_user"]

_PATIENCE_S: Final = 30.0
_SLOWEST: Final = 1 << 10
_CHUNK: Final = 1 << 20
_USER: Final = re.compile(r"(?<=://)[^/\s]*@")
Take = Callable[[bytes], object]


def one_line(text: object) -> str:
    """Returns a text with blanks for line breaks, control characters and parts of characters."""
    kept = "".join(each if each.isprintable() else " " for each in str(text))
    return " ".join(kept.split())


def without_user(place: str) -> str:
    """Returns an address without user, password and query, which are hidden from now on."""
    if "://" not in place:
        return place
    for user in _USER.findall(place):
        hide(user.removesuffix("@"))
        hide(user.removesuffix("@").partition(":")[2])
    bare, _, query = place.partition("?")
    hide(query)
    return _USER.sub("", bare)


def is_web(place: str) -> bool:
    """Returns whether a place is an address of a web server.

    Raises:
        UsageError: it is no address.
    """
    try:
        parts = urlsplit(place)
        _ = parts.port
    except ValueError as error:
        raise UsageError(f"{without_user(place)}: no address: {error}") from error
    return parts.scheme in ("http", "https")


def fetch(address: str, at_most: int, take: Take | None = None) -> bytes:
    """Returns a file of a web server, or passes it on in parts.

    Raises:
        FileNotFoundError: there is no such file.
        UsageError: it cannot be read, is larger, or comes too slowly.
    """
    shown = without_user(address)
    try:
        with _answer(address) as answer:
            found = taken(answer.read1, at_most, take, shown)
            if answer.length:
                raise IncompleteRead(b"", answer.length)
            return found
    except HTTPError as error:
        error.close()
        if error.code == 404:
            raise FileNotFoundError(shown) from error
        raise UsageError(f"{shown}: cannot be read: {error}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise UsageError(f"{shown}: cannot be read: {one_line(error)}") from error


def _answer(address: str) -> HTTPResponse:
    """Returns the answer of a server, whose head comes in time.

    Raises:
        OSError: it does not, or it leads to something else than a web server; also `HTTPException`.
    """
    came: SimpleQueue[object] = SimpleQueue()

    def ask() -> None:
        try:
            came.put(urlopen(Request(address), timeout=_PATIENCE_S))  # noqa: S310 - see is_web
        except (OSError, HTTPException, ValueError) as error:
            came.put(error)

    Thread(target=ask, daemon=True).start()  # one byte of a head a second is no timeout of a socket
    try:
        found = came.get(timeout=2 * _PATIENCE_S)
    except Empty:
        raise TimeoutError("timed out") from None
    if isinstance(found, Exception):
        raise found
    if not isinstance(found, HTTPResponse):
        raise OSError("not a web server")
    return found


def taken(read: Callable[[int], bytes], at_most: int, take: Take | None, where: str) -> bytes:
    """Returns what is read, or passes it on in parts.

    Raises:
        UsageError: it is larger than is expected, or comes too slowly.
    """
    whole = bytearray()
    count, began = 0, time.monotonic()
    while part := read(_CHUNK):
        count += len(part)
        if count > at_most:
            raise UsageError(f"{where}: larger than the {at_most} bytes that are expected")
        spent = time.monotonic() - began
        if spent > _PATIENCE_S and count < spent * _SLOWEST:
            raise UsageError(f"{where}: {count} bytes in {spent:.0f} s: it is too slow")
        if take is None:
            whole += part
        else:
            take(part)
    return bytes(whole)
