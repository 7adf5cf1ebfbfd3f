"""What strangers get of a listening process: few connections, a short time and little memory."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections import Counter
from typing import Final

from dicore_dist.links.errors import PeerError

__all__ = ["Lobby", "received"]

_LOG = logging.getLogger("dicore.comm")
PROOF_S: Final = 5.0
"""Seconds within which a peer must prove the token."""
_MOST: Final = 64
_TOLD_S: Final = 60.0
_EACH_S: Final = 0.01
_PAUSE_S: Final = 0.5


class Lobby:
    """The connections whose peers have not proven the token.

    When it is full, the oldest connection of the address that has the most of them is closed: who
    has the token needs milliseconds, so those that only hold connections keep nobody out.

    Args:
        name: What listens, for the log.
        most: Connections at the same time.
    """

    def __init__(self, name: str, most: int = _MOST) -> None:
        self._name, self._most = name, most
        self._guests: dict[socket.socket, str] = {}
        self._lock = threading.Lock()
        self._closed = False
        self._told_at, self._refused = -_TOLD_S, Counter[str]()
        self._pause_until = 0.0

    def __len__(self) -> int:
        return len(self._guests)

    def enter(self, sock: socket.socket, address: object) -> float:
        """Adds a connection; returns the time (`time.monotonic`) by which it must be proven."""
        host = str(address[0]) if isinstance(address, tuple) and address else "this machine"
        with self._lock:
            if len(self._guests) >= self._most:
                busiest = Counter(self._guests.values()).most_common(1)[0][0]
                oldest = next(each for each, of in self._guests.items() if of == busiest)
                del self._guests[oldest]
                _shut(oldest)
            self._guests[sock] = host
            if self._closed:
                _shut(sock)
        return time.monotonic() + PROOF_S

    def leave(self, sock: socket.socket) -> None:
        """Removes a connection: its peer has proven the token, or it has ended."""
        with self._lock:
            self._guests.pop(sock, None)

    @property
    def pause_s(self) -> float:
        """Seconds to wait before the next connection is accepted: 10 ms for each refused one.

        It is for processes to which a connection costs a thread, and whose peers seldom connect.
        """
        return max(0.0, self._pause_until - time.monotonic())

    def refused(self, address: object, reason: object) -> None:
        """Logs that a connection was refused: at most one line a minute, which counts all."""
        host = str(address[0]) if isinstance(address, tuple) and address else "this machine"
        with self._lock:
            self._refused[host] += 1
            now = time.monotonic()
            self._pause_until = min(max(self._pause_until, now) + _EACH_S, now + _PAUSE_S)
            if now - self._told_at < _TOLD_S:
                return
            self._told_at = now
            count, hosts = self._refused.total(), len(self._refused)
            self._refused.clear()
        text = "%s refused %d connections of %d addresses since the last such line; last: %s: %s"
        _LOG.warning(text, self._name, count, hosts, host, reason)

    def close(self) -> None:
        """Ends all connections, and those that enter from now on."""
        with self._lock:
            self._closed = True
            for each in self._guests:
                _shut(each)


def received(sock: socket.socket, most: int, deadline: float) -> bytes:
    """Returns the next bytes of a connection.

    Raises:
        PeerError: there are none by the deadline, or the connection ended.
    """
    left = deadline - time.monotonic()
    if left <= 0:
        raise PeerError("the peer is too slow")
    try:
        sock.settimeout(left)
        data = sock.recv(most)
    except TimeoutError:
        raise PeerError("the peer is too slow") from None
    except OSError as error:
        raise PeerError(f"the connection ended: {error}", context={"cut": True}) from error
    if not data:
        raise PeerError("the peer closed the connection", context={"cut": True})
    return data


def _shut(sock: socket.socket) -> None:
    """Ends a connection; a thread that reads it gets the end."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
