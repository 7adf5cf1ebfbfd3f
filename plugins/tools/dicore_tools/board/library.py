"""The runs of the board: found, read as far as time allows, and kept up to date."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from secrets import token_hex
from threading import RLock
from typing import Final, NamedTuple

from dicore_tools.board.found import check_places, find_folders
from dicore_tools.board.run import BoardRun, Row
from dicore_tools.board.tags import Tags
from dicore_tools.reports.run_data import RunData

__all__ = ["Changes", "Library"]

_SEARCH_S: Final = 5.0
_REFRESH_S: Final = 0.5
_BUDGET_S: Final = 0.4
"""Longest time of one answer: what is not read then is read at the next."""
_MOST_BYTES: Final = 256 << 20
"""Memory of curves; those that were used last are kept."""


class Changes(NamedTuple):
    """What is new on the board.

    Args:
        start: Of this board alone: with another one, versions begin again.
        version: To be asked for next time.
        rows: Rows that were changed or added since the version that was asked for.
        ids: The runs that there are, in the order of their names.
        reading: How many runs are not read yet.
        metrics: Names of all metrics.
    """

    start: str
    version: int
    rows: list[Row]
    ids: list[str]
    reading: int
    metrics: list[str]


class Library:
    """Keeps the runs below some folders; may be used by several threads.

    Args:
        places: Folders, which are searched recursively, or summary files of several seeds.
        clock: Seconds that pass.
        most_bytes: Memory of curves.

    Raises:
        UsageError: a place does not exist.
    """

    def __init__(
        self,
        places: Sequence[str | Path],
        *,
        clock: Callable[[], float] = time.monotonic,
        most_bytes: int = _MOST_BYTES,
    ) -> None:
        check_places(places)
        self.tags = Tags()
        self._places = [Path(place).absolute() for place in places]
        self._clock, self._most_bytes = clock, most_bytes
        self._runs: dict[str, BoardRun] = {}
        self._rows: dict[str, tuple[int, Row]] = {}
        self._start, self._version = token_hex(4), 0
        self._unread: dict[str, None] = {}
        self._used: dict[str, None] = {}
        self._searched, self._pause, self._refreshed = -1e9, _SEARCH_S, -1e9
        self.lock = RLock()

    def changes(self, since: int = 0) -> Changes:
        """Looks at the runs and returns the rows that are new since a version; 0: all rows."""
        with self.lock:
            began = self._clock()
            if began - self._searched >= self._pause:
                self._search()
            if began - self._refreshed >= _REFRESH_S or self._unread:
                self._refresh(began + _BUDGET_S)
            rows = [row for version, row in self._rows.values() if version > since]
            metrics = dict.fromkeys(tag for run in self._runs.values() for tag in run.metrics)
            ids = [*self._runs]
            return Changes(
                self._start, self._version, rows, ids, len(self._unread), sorted(metrics)
            )

    def run(self, identity: str) -> BoardRun | None:
        """Returns the run of an id."""
        return self._runs.get(identity)

    def names(self) -> dict[Path, str]:
        """Returns the name of each run, by its folder."""
        return {run.folder.path: run.name for run in [*self._runs.values()]}

    def data(
        self, identities: Sequence[str], tags: Collection[str], within: float = math.inf
    ) -> tuple[list[RunData], int]:
        """Returns runs with the curves of some metrics.

        Args:
            identities: The runs; unknown ones are left out.
            tags: The metrics.
            within: Seconds after which no further run is read from its file.

        Returns:
            The runs, and how many are to be read yet.
        """
        found: list[RunData] = []
        left, end = 0, self._clock() + within
        for identity in dict.fromkeys(identities):
            with self.lock:  # one after the other, so that the table goes on meanwhile
                run = self._runs.get(identity)
                if run is None:
                    continue
                if not run.has(tags) and found and self._clock() >= end:
                    left += 1
                    continue
                found.append(run.data(tags))
                self._use(identity)
        return found, left

    def _search(self) -> None:
        """Looks for runs that came or went."""
        began = self._clock()
        found = find_folders(self._places)
        known = {run.folder.path: run for run in self._runs.values()}
        runs = [known.get(path) or BoardRun(path, name) for path, name in found.items()]
        runs.sort(key=lambda run: run.name)
        self._unread |= dict.fromkeys(run.id for run in runs if run.folder.path not in known)
        self._runs = {run.id: run for run in runs}
        for kept in (self._unread, self._rows, self._used):
            for identity in [each for each in kept if each not in self._runs]:
                del kept[identity]
        self._searched = self._clock()
        self._pause = max(_SEARCH_S, 20 * (self._searched - began))

    def _refresh(self, end: float) -> None:
        """Reads what is new, first of the runs that are known."""
        for identity, run in self._runs.items():
            if identity not in self._unread:
                self._read(run)
        for identity in [*self._unread]:
            if self._clock() >= end:
                break
            self._read(self._runs[identity])
            self._save_memory()
        self._refreshed = self._clock()

    def _read(self, run: BoardRun) -> None:
        """Reads what is new of a run, and makes its row again if it may have changed."""
        run.refresh()
        if run.has_more:
            self._unread[run.id] = None
        else:
            self._unread.pop(run.id, None)
        if run.nbytes:
            self._used.setdefault(run.id)
        _, row = self._rows.get(run.id, (0, Row()))
        tags = self.tags.of(run.folder.path)
        if run.is_changed or row.get("tags") != tags:
            new = {**run.row(), "tags": tags}
            if new != row:
                self._version += 1
                self._rows[run.id] = self._version, new

    def _use(self, identity: str) -> None:
        """Notes that the curves of a run were used last."""
        self._used.pop(identity, None)
        self._used[identity] = None
        self._save_memory()

    def _save_memory(self) -> None:
        """Drops the curves that were not used for longest if all need much memory."""
        total = sum(self._runs[each].nbytes for each in self._used)
        for each in [*self._used][:-1]:
            if total <= self._most_bytes:
                return
            before = self._runs[each].nbytes
            self._runs[each].drop()
            total -= before - self._runs[each].nbytes
