"""The journal of a coordinator: what it did, line by line, from which a restarted one goes on."""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from dicore.errors import CheckpointWriteError, UsageError
from dicore.run.atomic import read_regular
from dicore_plugins.private import opener, private_folder

__all__ = ["Journal", "is_finished"]

_END_BYTES: Final = 4096
_MOST_ROWS: Final = 1 << 24
"""Of a block: the coordinator numbers them in memory."""
_MODES: Final = {True: os.O_APPEND, False: os.O_TRUNC}


class Journal:
    """Lines of JSON in a file; the last one may be cut off by a crash.

    It holds a lock beside the file, so that two coordinators never write the same journal.

    Args:
        path: The file; one that says `finished` is begun anew.

    Attributes:
        job_id: Names the training; the same after a restart of the coordinator.
        epoch: Number of this coordinator among those of the training, from 1.
        env_step: Env steps so far.
        train_iter: Updates so far.
        tasks: Numbers of the tasks assigned so far, by kind.
        blocks: Metadata of the blocks collected so far, in order.
        resumed: The file was of an unfinished training.

    Raises:
        UsageError: another coordinator writes this journal, or the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        from filelock import FileLock, Timeout

        self._path = path
        self._lock = threading.Lock()
        self.job_id, self.epoch = secrets.token_hex(8), 1
        self.env_step = self.train_iter = 0
        self.tasks = {"collector": 0, "learner": 0}
        self.blocks: list[Any] = []
        self._held = FileLock(f"{path}.lock", is_singleton=False, thread_local=False, mode=0o600)
        try:
            private_folder(path.parent)
            self._held.acquire(timeout=0)
            self.resumed = self._read()
            descriptor = opener(str(path), os.O_WRONLY | os.O_CREAT | _MODES[self.resumed])
            self._file = os.fdopen(descriptor, "w", encoding="utf-8")
        except Timeout:
            raise UsageError(
                f"{path}: another coordinator of this training is running",
                hint="end it first, also if it is suspended; or set system.path_policy",
            ) from None
        except OSError as error:
            self._held.release()
            raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
        if self.resumed:
            self._file.write("\n")  # after a line that was cut off
        self.write("job", job_id=self.job_id, epoch=self.epoch)

    def write(self, event: str, **facts: Any) -> None:
        """Appends a line; it is on disk when this returns, except for power failures.

        Raises:
            CheckpointWriteError: it cannot be written, for instance because the disk is full.
        """
        with self._lock:
            if self._file.closed:
                return
            try:
                self._file.write(json.dumps({"event": event, **facts}) + "\n")
                self._file.flush()
            except OSError as error:
                raise CheckpointWriteError(
                    f"{self._path}: cannot be written: {error.strerror}",
                    hint="start the coordinator again when there is room: it continues from here",
                ) from error

    def close(self) -> None:
        """Closes the file and gives the lock back; later calls do nothing."""
        with self._lock:
            if self._file.closed:
                return
            with suppress(OSError):  # what a full disk refused was reported by `write`
                self._file.close()
            with suppress(OSError):
                Path(self._held.lock_file).unlink()
            self._held.release()

    def _read(self) -> bool:
        """Reads an earlier file; returns whether it is of an unfinished training."""
        try:
            lines = read_regular(self._path).decode(errors="replace").splitlines()
        except FileNotFoundError:
            return False
        found = [entry for line in lines if (entry := _parsed(line)) is not None]
        if not found or any(entry["event"] == "finished" for entry in found):
            return False
        for entry in found:
            with suppress(ArithmeticError, LookupError, TypeError, ValueError):  # a damaged line
                self._apply(entry)
        return True

    def _apply(self, entry: Mapping[str, Any]) -> None:
        event = entry["event"]
        if event == "job":
            job_id, epoch = str(entry["job_id"]), int(entry.get("epoch", 1)) + 1
            if job_id.isalnum():  # it names files
                self.job_id, self.epoch = job_id, epoch
        elif event == "task":
            kind = str(entry["kind"])
            self.tasks[kind] = max(self.tasks[kind], _whole(entry["number"]))
        elif event == "block":
            count = _whole(entry["count"], _MOST_ROWS)
            self.env_step += _whole(entry["env_step"])
            self.blocks.append({**entry, "file_path": str(entry["file_path"]), "count": count})
        elif event == "steps":
            self.env_step += _whole(entry["env_step"])
        elif event == "updates":
            self.train_iter = max(self.train_iter, _whole(entry["train_iter"]))


def _whole(value: Any, most: int = 1 << 62) -> int:
    """Returns a count; raises ValueError if it cannot be one."""
    if not 0 <= int(value) <= most:
        raise ValueError(f"{value} is no count")
    return int(value)


def is_finished(path: Path) -> bool:
    """Returns whether the last line of a journal says that its training has ended."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _END_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return False
    last = _parsed(lines[-1]) if lines else None
    return last is not None and last["event"] == "finished"


def _parsed(line: str) -> dict[str, object] | None:
    try:
        entry = json.loads(line)
    except (RecursionError, ValueError):
        return None
    return entry if isinstance(entry, dict) and "event" in entry else None
