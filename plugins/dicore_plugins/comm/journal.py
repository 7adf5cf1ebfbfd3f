"""The journal of a coordinator: what it did, line by line, from which a restarted one goes on."""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dicore.errors import UsageError

__all__ = ["Journal"]


class Journal:
    """Lines of JSON in a file; the last one may be cut off by a crash.

    Args:
        path: The file; one that says `finished` is begun anew.

    Attributes:
        job_id: Names the training; the same after a restart of the coordinator.
        env_step: Env steps so far.
        train_iter: Updates so far.
        tasks: Numbers of the tasks assigned so far, by kind.
        blocks: Metadata of the blocks collected so far, in order.
        resumed: The file was of an unfinished training.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self.job_id = secrets.token_hex(8)
        self.env_step = self.train_iter = 0
        self.tasks = {"collector": 0, "learner": 0}
        self.blocks: list[dict[str, Any]] = []
        self.best = float("-inf")
        self.resumed = self._read()
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._file = path.open("a" if self.resumed else "w", encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
        if self.resumed:
            self._file.write("\n")  # after a line that was cut off
        else:
            self.write("job", job_id=self.job_id)

    def write(self, event: str, **facts: Any) -> None:
        """Appends a line; it is on disk when this returns, except for power failures."""
        with self._lock:
            if not self._file.closed:
                self._file.write(json.dumps({"event": event, **facts}) + "\n")
                self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._file.close()

    def _read(self) -> bool:
        """Reads an earlier file; returns whether it is of an unfinished training."""
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return False
        found = [entry for line in lines if (entry := _parsed(line)) is not None]
        if not found or any(entry["event"] == "finished" for entry in found):
            return False
        for entry in found:
            self._apply(entry)
        return True

    def _apply(self, entry: Mapping[str, Any]) -> None:
        event = entry["event"]
        if event == "job":
            self.job_id = str(entry["job_id"])
        elif event == "task":
            kind = str(entry["kind"])
            self.tasks[kind] = max(self.tasks[kind], int(entry["number"]))
        elif event == "block":
            self.env_step += int(entry["env_step"])
            self.blocks.append(dict(entry))
        elif event == "updates":
            self.train_iter = max(self.train_iter, int(entry["train_iter"]))
        elif event == "evaluation":
            self.best = max(self.best, float(entry["mean_return"]))


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    return entry if isinstance(entry, dict) and "event" in entry else None
