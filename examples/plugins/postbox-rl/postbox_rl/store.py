"""The store of the service: one SQLite file with a row per metric."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dicore.errors import UsageError

__all__ = ["Store"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS metrics (
    run TEXT NOT NULL, env_step INTEGER NOT NULL, train_iter INTEGER NOT NULL,
    tag TEXT NOT NULL, value REAL
);
CREATE INDEX IF NOT EXISTS by_run ON metrics (run, tag, env_step);
"""
_SUMMARY = """
SELECT run, MAX(env_step), MAX(train_iter), COUNT(*),
       MAX(CASE WHEN tag = 'evaluator/return_mean' THEN value END)
FROM metrics GROUP BY run ORDER BY run
"""


class Store:
    """Metrics of runs in a SQLite file; its methods may be called by several threads.

    Args:
        file: The file; made if it does not exist.

    Raises:
        UsageError: it is no SQLite file, or cannot be written.
    """

    def __init__(self, file: str | Path) -> None:
        self._lock = threading.Lock()
        try:
            self._base = sqlite3.connect(file, check_same_thread=False)
            with self._base:
                self._base.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise UsageError(
                f"{file}: {error}", hint="name a new file, or one of postbox"
            ) from error

    def add(self, run: str, entries: list[Mapping[str, Any]]) -> None:
        """Stores entries of a run, all of them or none.

        Raises:
            ValueError: an entry is not what the logger posts; also `LookupError`, `TypeError`.
        """
        with self._lock, self._base:
            for each in entries:
                if "resumed_at" in each:
                    env_step, train_iter = (int(count) for count in each["resumed_at"])
                    self._base.execute(
                        "DELETE FROM metrics WHERE run = ? AND (env_step > ? OR train_iter > ?)",
                        (run, env_step, train_iter),
                    )
                else:
                    counts = run, int(each["env_step"]), int(each["train_iter"])
                    rows = [(*counts, str(tag), float(each["scalars"][tag]))
                            for tag in each["scalars"]]  # fmt: skip
                    self._base.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?)", rows)

    def runs(self) -> Iterator[dict[str, Any]]:
        """Yields name, progress, number of metrics and best return of each run."""
        names = ("run", "env_step", "train_iter", "metrics", "best_return")
        with self._lock:
            found = self._base.execute(_SUMMARY).fetchall()
        yield from (dict(zip(names, row, strict=True)) for row in found)

    def close(self) -> None:
        """Closes the file."""
        with self._lock:
            self._base.close()
