"""Messages between the main process and a worker, with time limits; and how a worker dies with it.

A message is a number and bytes. The main process never blocks for longer than its time limit, also
not on a worker that was stopped while it sent.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import pickle  # noqa: TID251 - between a process and its own children
import select
import signal
import socket
import struct
import tempfile
import threading
import time
import weakref
from typing import Any

import cloudpickle

from dicore.values import Tree

__all__ = ["Channel", "Lifeline", "die_with", "dumps", "loads", "map_file", "shared_file"]

_HEADER = struct.Struct("<QQ")
_READ = 4096
_OWN: weakref.WeakSet[Any] = weakref.WeakSet()
"""What this process alone holds open, so that others notice its death."""


def dumps(value: Tree) -> bytes:
    """Pickles a value; by value what is defined in the main script, or has no name."""
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception:
        made: bytes = cloudpickle.dumps(value)
        return made


def loads(data: bytes) -> Any:
    """Returns what a process of this run pickled."""
    return pickle.loads(data)  # noqa: S301 - see above


def _close_in_child() -> None:
    """Closes in a forked child the ends of the main process: they would keep workers alive."""
    for end in list(_OWN):
        end.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


class Channel:
    """One end of a connection.

    Args:
        end: A stream socket.
        wait_s: A call waits at most so long for the other side; None: as long as needed.
    """

    def __init__(self, end: socket.socket, wait_s: float | None = None) -> None:
        self.socket = end
        self._buffer: bytes | bytearray = b""
        if wait_s is not None:
            _OWN.add(self)
            limit = struct.pack("ll", int(wait_s), int(wait_s % 1 * 1e6))
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def fileno(self) -> int:
        """Returns the file descriptor; -1 if it is closed."""
        return self.socket.fileno()

    def send(self, number: int, body: bytes, until: float = float("inf")) -> None:
        """Sends a message.

        Raises:
            OSError: the other side is gone.
            TimeoutError: it did not read the message until then (`time.monotonic`).
        """
        data = _HEADER.pack(len(body), number) + body
        sent = 0
        while sent < len(data):
            try:
                sent += self.socket.send(memoryview(data)[sent:] if sent else data)
            except BlockingIOError:
                if time.monotonic() > until:
                    raise TimeoutError("the worker reads no messages") from None

    def receive(self, *, wait: bool = True) -> tuple[int, bytes] | None:
        """Returns the next message; None if none is complete, after the time limit or at once.

        Raises:
            EOFError: the other side is gone.
        """
        while True:
            buffer, wanted = self._buffer, _HEADER.size
            if len(buffer) >= wanted:
                length, number = _HEADER.unpack_from(buffer)
                wanted += length
                if len(buffer) >= wanted:
                    self._buffer = bytes(buffer[wanted:])
                    return number, bytes(buffer[_HEADER.size : wanted])
            try:
                data = self.socket.recv(
                    max(_READ, wanted - len(buffer)), 0 if wait else socket.MSG_DONTWAIT
                )
            except BlockingIOError:
                return None
            except OSError as error:
                raise EOFError from error
            if not data:
                raise EOFError
            if buffer:
                self._buffer = bytearray(buffer) if buffer.__class__ is bytes else buffer
                self._buffer += data
            else:
                self._buffer = data

    def close(self) -> None:
        """Closes this end."""
        self.socket.close()


class Lifeline:
    """A pipe that nobody writes to: a worker that holds its other end sees this process end."""

    def __init__(self) -> None:
        self.end, self._held = os.pipe()
        _OWN.add(self)

    def handed_over(self) -> None:
        """Closes this process's copy of the end that a worker has."""
        os.close(self.end)
        self.end = -1

    def close(self) -> None:
        """Closes both ends: a worker that still runs ends."""
        for descriptor in (self.end, self._held):
            if descriptor >= 0:
                os.close(descriptor)
        self.end = self._held = -1

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


def die_with(lifeline: int) -> None:
    """Ends this process group when the process that holds the other end of the lifeline ends.

    The kernel does it where it can, also to code that holds the GIL; elsewhere a thread.
    """
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        flags = fcntl.fcntl(lifeline, fcntl.F_GETFL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, flags | os.O_ASYNC)
        if not select.select([lifeline], [], [], 0)[0]:
            return  # it had not ended before
    threading.Thread(target=_kill_at_end, args=(lifeline,), daemon=True).start()


def _kill_at_end(lifeline: int) -> None:
    os.read(lifeline, 1)
    os.killpg(0, signal.SIGKILL)


def shared_file(size: int) -> int:
    """Returns a descriptor of memory without a name, which ends with its last user."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("dicore")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor


def map_file(descriptor: int) -> mmap.mmap:
    """Maps all of a shared file."""
    return mmap.mmap(descriptor, os.fstat(descriptor).st_size)
