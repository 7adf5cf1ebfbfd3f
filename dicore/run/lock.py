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

        self._lock = FileLock(folder / _NAME, is_singleton=False)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise _locked(folder) from None
        except OSError as error:
            raise UsageError(f"{folder}: cannot be written: {error.strerror}") from None

    def release(self) -> None:
        """Lets go; harmless when repeated."""
        if self._lock.is_locked:
            with suppress(OSError):  # first: once it is released the file may be another's
                Path(self._lock.lock_file).unlink()
        self._lock.release()


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
