"""Reads the heads of requests in one thread; only who is admitted gets a thread of its own."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from dicore.errors import DicoreError
from dicore_dist.links.errors import PeerError
from dicore_dist.links.lobby import Lobby
from dicore_dist.links.wire import HEAD_BYTES, parsed_head

__all__ = ["Door", "Head"]

_POLL_S: Final = 0.2
_REFUSED_S: Final = 0.5
_REPLY_S: Final = 0.25
"""Delay of a refusal: strangers who come again and again come less often."""
_REFUSED_BYTES: Final = 1 << 16
_AT_ONCE: Final = 128
"""Connections that are accepted in one go, as many as wait."""


@dataclass(frozen=True)
class Head:
    """What stands before the body of a request, and what came of the body with it."""

    first: str
    headers: Mapping[str, str]
    rest: bytes


@dataclass(eq=False)
class _Guest:
    """A connection whose peer has not proven the token."""

    sock: socket.socket
    address: object
    deadline: float
    data: bytearray = field(default_factory=bytearray)
    refused: bool = False
    reply: bytes = b""
    reply_at: float = 0.0


class Door:
    """Accepts connections; of each it reads one head, which a check admits or refuses.

    Args:
        listening: A listening socket, which it closes.
        name: What listens, for the log.
        check: Raises a `DicoreError` for a head that is refused; runs in the thread of the door.
        serve: Answers a request that is admitted, in a thread of its own; closes no connection.
        refusal: Returns what a peer that is refused is told.
    """

    def __init__(
        self,
        listening: socket.socket,
        name: str,
        check: Callable[[Head], None],
        serve: Callable[[socket.socket, Head], None],
        refusal: Callable[[DicoreError], bytes],
    ) -> None:
        listening.setblocking(False)
        self._listening, self._check = listening, check
        self._serve, self._refusal = serve, refusal
        self.lobby = Lobby(name)
        self._waiting = selectors.DefaultSelector()
        self._guests: set[_Guest] = set()
        self._served: dict[threading.Thread, socket.socket] = {}
        self._closed, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._run, name="dicore-http", daemon=True)
        self._thread.start()

    def close(self, wait_s: float) -> None:
        """Ends all connections at once, except those whose requests are answered in `wait_s`."""
        self._closed.set()
        end = time.monotonic() + wait_s
        self.lobby.close()
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        if self._thread is not threading.current_thread():
            self._thread.join(timeout=wait_s)
        with self._lock:
            served = dict(self._served)
        for thread, sock in served.items():
            if thread is not threading.current_thread():
                thread.join(max(0.0, end - time.monotonic()))
                with contextlib.suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)

    # ---- the thread of the door

    def _run(self) -> None:
        self._waiting.register(self._listening, selectors.EVENT_READ)
        try:
            while not self._closed.is_set():
                for key, _ in self._waiting.select(_POLL_S):
                    if key.data is None:
                        self._accept()
                    else:
                        self._hear(key.data)
                now = time.monotonic()
                for guest in [each for each in self._guests if each.reply and each.reply_at < now]:
                    self._say(guest)
                for guest in [each for each in self._guests if each.deadline < now]:
                    self._end(guest, None if guest.refused else PeerError("the peer is too slow"))
        finally:
            for guest in [*self._guests]:
                self._end(guest)
            self._waiting.close()
            self._listening.close()

    def _accept(self) -> None:
        """Accepts all who wait: one that has the token must not queue behind what others send."""
        for _ in range(_AT_ONCE):
            try:
                made, address = self._listening.accept()
            except BlockingIOError:
                return
            except OSError:  # too many open files
                self._closed.wait(0.05)
                return
            made.setblocking(False)
            guest = _Guest(made, address, self.lobby.enter(made, address))
            self._guests.add(guest)
            self._waiting.register(made, selectors.EVENT_READ, guest)

    def _hear(self, guest: _Guest) -> None:
        """Takes what a peer sent."""
        try:
            piece = guest.sock.recv(HEAD_BYTES)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._say(guest)
            self._end(guest, None if guest.refused else PeerError("the peer closed the connection"))
            return
        guest.data += piece
        if guest.refused:
            if len(guest.data) > _REFUSED_BYTES:  # it waits: one that is ended would come again
                self._waiting.unregister(guest.sock)
            return
        try:
            found = parsed_head(guest.data)
            if found is None:
                return
            head = Head(*found)
            self._check(head)
        except DicoreError as error:
            self._refuse(guest, error)
        else:
            self._admit(guest, head)

    def _admit(self, guest: _Guest, head: Head) -> None:
        thread = threading.Thread(
            target=self._served_by, args=(guest.sock, head), name="dicore-peer", daemon=True
        )
        with self._lock:
            self._served[thread] = guest.sock
        self._leave(guest)
        try:
            thread.start()
        except RuntimeError:  # too many threads
            with self._lock:
                del self._served[thread]
            guest.sock.close()

    def _served_by(self, sock: socket.socket, head: Head) -> None:
        try:
            with sock:
                self._serve(sock, head)
        finally:
            with self._lock:
                self._served.pop(threading.current_thread(), None)

    def _refuse(self, guest: _Guest, error: DicoreError) -> None:
        """Tells why; what the peer has not sent yet is read for a moment, or the text is lost."""
        self.lobby.refused(guest.address, error)
        guest.refused, guest.reply = True, self._refusal(error)
        guest.reply_at = time.monotonic() + _REPLY_S
        guest.deadline = guest.reply_at + _REFUSED_S

    def _say(self, guest: _Guest) -> None:
        """Sends a refusal, if it has not been sent."""
        reply, guest.reply = guest.reply, b""
        if reply:
            with contextlib.suppress(OSError):
                guest.sock.send(reply)
                guest.sock.shutdown(socket.SHUT_WR)

    def _end(self, guest: _Guest, reason: PeerError | None = None) -> None:
        if reason is not None and not self._closed.is_set():
            self.lobby.refused(guest.address, reason)
        self._leave(guest)
        guest.sock.close()

    def _leave(self, guest: _Guest) -> None:
        with contextlib.suppress(KeyError):  # it is not read any more
            self._waiting.unregister(guest.sock)
        self._guests.discard(guest)
        self.lobby.leave(guest.sock)
