"""What environments print in workers: written to files of the run, and never without limit."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import logging
import os
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

__all__ = ["Printed", "capture", "file_of", "finished", "say_where"]

_LOG = logging.getLogger("dicore.env")
_LARGEST = 10_000_000
"""Bytes of a file after which its older half is removed."""
_CHECKED = 1_000_000
"""Bytes that are written between two looks at the size of the file."""
_LONGEST_LINE = 8_192
"""Characters that are kept until a line ends; progress bars do not end theirs."""
_OWNERS = 1 << 32
"""Modulus of the numbers on the board; see `worker.RESETS`."""


def file_of(folder: Path, role: str, ids: Sequence[int]) -> Path:
    """Returns the file of a worker with these environments: `env-3.log`, or `env-0-7.log`."""
    of_role = "" if role == "collector" else f"{role}-"
    span = f"{ids[0]}-{ids[-1]}" if len(ids) > 1 else str(ids[0])
    return folder / f"{of_role}env-{span}.log"


def finished(file: Path) -> bool:
    """Removes the file of a worker if nothing was printed; returns whether something was."""
    with contextlib.suppress(OSError):
        if file.stat().st_size:
            return True
        file.unlink()
    return False


@cache
def say_where(folder: Path) -> None:
    """Logs, once per folder, that there are such files."""
    _LOG.warning("what environments printed is in %s", folder / "*env-*.log")


def capture(file: str, busy: Sequence[int]) -> Printed | None:
    """Sends standard output and error of this process to a file, also those of C code.

    Args:
        file: Appended to, and created if needed.
        busy: `busy[0]` is the environment that is being called; see `WorkerPool`.

    Returns:
        The new `sys.stdout`; None if the file cannot be written, so that nothing is captured.
    """
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError:
        return None
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)
    printed = Printed(busy)
    sys.stdout = sys.stderr = printed
    faulthandler.enable(2)
    return printed


class Printed(io.TextIOBase):
    """Writes lines to standard output, each after the environment that printed it.

    Args:
        busy: See `capture`.

    Attributes:
        buffer: Standard output, for bytes.
    """

    encoding = "utf-8"

    def __init__(self, busy: Sequence[int]) -> None:
        self._busy = busy
        self._line = ""
        self._bytes = 0
        self.buffer = os.fdopen(1, "wb", 0, closefd=False)

    def writable(self) -> bool:
        """Returns True."""
        return True

    def fileno(self) -> int:
        """Returns the descriptor of standard output."""
        return 1

    def write(self, text: str) -> int:
        """Writes the lines that are complete, and parts of very long ones."""
        *lines, self._line = (self._line + text).split("\n")
        if len(self._line) > _LONGEST_LINE:
            lines.append(self._line)
            self._line = ""
        if lines:
            self._put(lines)
        return len(text)

    def finish(self) -> None:
        """Writes a last line that is not complete."""
        if self._line:
            self.write("\n")

    def limit(self) -> None:
        """Removes the older half of what was printed, also by C code, if it is too much."""
        self._bytes = 0
        size = os.fstat(1).st_size
        if size > _LARGEST:
            newest = os.pread(1, _LARGEST // 2, size - _LARGEST // 2).partition(b"\n")[2]
            os.ftruncate(1, 0)
            os.write(1, b"(earlier lines were removed: there were too many)\n" + newest)

    def _put(self, lines: Sequence[str]) -> None:
        owner = self._busy[0]
        who = f"env {owner % _OWNERS}: " if owner >= 0 else ""
        data = "".join(f"{who}{line}\n" for line in lines).encode(errors="backslashreplace")
        self._bytes += len(data)
        with contextlib.suppress(OSError):  # a full disk is no failure of the environment
            os.write(1, data)
            if self._bytes > min(_CHECKED, _LARGEST // 10):
                self.limit()
