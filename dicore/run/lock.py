"""The lock on a run's folder: one process writes, others look.

It is advisory and belongs to the process: when that dies, however it dies, the lock is gone.
"""

from __future__ import annotations

import json
import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

from dicore.errors import RunLockedError, UsageError

__all__ = ["RunLock", "holder_facts"]

_NAME = ".lock"


def holder_facts() -> dict[str, Any]:
    """Returns what `run.json` tells of the process that runs: `pid` and `host`."""
    return {"pid": os.getpid(), "host": platform.node()}


class RunLock:
    """Holds the lock of one folder from construction to `release`.

    Args:
        folder: The run's folder.

    Raises:
        RunLockedError: another process, or another run of this one, holds it.
        UsageError: the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        from filelock import FileLock, Timeout

        self._file = folder / _NAME
        self._lock = FileLock(self._file, is_singleton=False)
        try:
            self._lock.acquire(timeout=0)
            self._ours = _identity(self._file)
        except Timeout:
            raise _locked(folder) from None
        except OSError as error:
            raise UsageError(f"{folder}: cannot be written: {error.strerror}") from None

    def stands(self) -> bool:
        """Says whether the folder is still the one that was locked, and nobody removed it."""
        try:
            return self._lock.is_locked and _identity(self._file) == self._ours
        except OSError:
            return False

    def release(self) -> None:
        """Lets go; harmless when repeated."""
        if self.stands():
            with suppress(OSError):  # first: once it is released the file may be another's
                self._file.unlink()
        self._lock.release()


def _identity(file: Path) -> tuple[int, int]:
    facts = file.stat()
    return facts.st_dev, facts.st_ino


def _locked(folder: Path) -> RunLockedError:
    try:
        record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
        holder = f"process {record['pid']} on {record['host']}"
    except (OSError, ValueError, KeyError, TypeError):
        record, holder = {}, "another process"
    return RunLockedError(
        f"{folder}: {holder} is training there",
        hint="wait for it, stop it, or choose another folder with --exp-name",
        context={"folder": str(folder), "pid": record.get("pid"), "host": record.get("host")},
    )
