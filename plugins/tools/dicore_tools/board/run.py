"""A run on the board: its row of the table, and its metrics as they are appended.

Shapes: P points of a metric.
"""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Mapping
from errno import ELOOP
from hashlib import sha256
from pathlib import Path
from typing import Final

from dicore.console import plural
from dicore.errors import DicoreError
from dicore.run.folder import RunFolder
from dicore_tools.reports.columns import LARGEST, Appended, Floats, MetricsTail, joined
from dicore_tools.reports.curves import TAG
from dicore_tools.reports.run_data import RunData, read_run

__all__ = ["BoardRun"]

Row = dict[str, object]

_LONGEST: Final = 300
"""Characters of a text of a run that the table shows."""


class BoardRun:
    """Reads a run again and again, only what has changed.

    Args:
        path: Its folder.
        name: What the table calls it.
    """

    def __init__(self, path: Path, name: str) -> None:
        self.id = sha256(os.fsencode(path)).hexdigest()[:12]
        self.name = _short(name)
        self.folder = RunFolder(path)
        self.problem = ""
        self.is_changed = True
        """Whether the row may be another than at the last call of `row`."""
        self.has_more = True
        """Whether part of its metrics is not read yet."""
        self._tail = MetricsTail(self.folder.metrics)
        self._stamps: object = None
        self._data = RunData(self.folder, {}, {}, {})
        self._last: dict[str, Floats] = {}
        self._best = -math.inf
        self._damaged = self._not_finite = 0
        self._parts: dict[str, list[Floats]] = {TAG: []}
        self._unreadable = ""
        self.nbytes = 0
        """Memory of the curves."""

    # ---- reading

    def refresh(self) -> None:
        """Reads what has changed; what cannot be read is said in `problem`."""
        problems, before = [], self.problem
        appended = None
        try:
            self.refuse_links()
            appended = self._tail.read(self._parts)
        except OSError as error:
            self.has_more = False
            where = os.path.relpath(error.filename or self.folder.metrics, self.folder.path)
            problems.append(f"{where} cannot be read: {error.strerror or error}")
        else:
            if appended is not None:
                self._take(appended)
            self.has_more = appended is not None and appended.more
        if self._damaged:
            problems.append(f"log/metrics.jsonl: {plural(self._damaged, 'line')} left out, damaged")
        if self._not_finite:
            count = plural(self._not_finite, "value")
            problems.append(f"log/metrics.jsonl: {count} left out, not finite")
        is_new = self._read_record()
        self.problem = "; ".join(filter(None, [*problems, self._unreadable]))
        self.is_changed |= is_new or appended is not None or self.problem != before
        self.is_changed |= self._data.record.get("status") == "running"  # it may be killed

    def _read_record(self) -> bool:
        """Reads `run.json` and `config.json` if they have changed; returns whether they have."""
        stamps = (_stamp(self.folder.metadata), _stamp(self.folder.config))
        if stamps == self._stamps:
            return False
        self._stamps, self._unreadable = stamps, ""
        try:
            self._data = read_run(self.folder, {})
        except (DicoreError, OSError, RecursionError) as error:
            self._unreadable = str(error).replace(f"{self.folder.path}{os.sep}", "")
        return True

    def _take(self, found: Appended) -> None:
        if found.anew:
            self._forget()
        self._damaged += found.damaged
        self._not_finite += found.not_finite
        for tag, points in found.columns.items():
            if tag not in self._last or points[-1, 0] >= self._last[tag][0, 0]:
                self._last[tag] = points[-1:].copy()
            if tag in self._parts:
                self._parts[tag].append(points)
                self.nbytes += points.nbytes
        if TAG in found.columns:
            self._best = max(self._best, float(found.columns[TAG][:, 3].max()))

    def _forget(self) -> None:
        self._parts = {tag: [] for tag in self._parts}
        self._last, self._best, self.nbytes = {}, -math.inf, 0
        self._damaged = self._not_finite = 0

    def drop(self) -> None:
        """Forgets the curves but that of the returns; `data` reads them again."""
        self._parts = {TAG: self._parts[TAG]}
        self.nbytes = sum(each.nbytes for each in self._parts[TAG])

    @property
    def metrics(self) -> list[str]:
        """Names of its metrics."""
        return list(self._last)

    # ---- what it shows

    def has(self, tags: Collection[str]) -> bool:
        """Returns whether the curves of metrics are read, as far as the run has them."""
        return not self.has_more and not self._missing(tags)

    def data(self, tags: Collection[str]) -> RunData:
        """Returns the run with the curves of some metrics.

        Args:
            tags: The metrics. Those that were not asked for before are read from the file.
        """
        while self.has_more:
            self.refresh()
        missing = self._missing(tags)
        if missing:
            self._parts |= {tag: [] for tag in missing}
            self._forget()
            self._tail.restart()
            self.has_more = True
        while self.has_more:
            self.refresh()
        known = [tag for tag in tags if self._parts.get(tag)]
        self._parts |= {tag: [joined(self._parts[tag])] for tag in known}
        return self._with({tag: self._parts[tag][0] for tag in known})

    def _missing(self, tags: Collection[str]) -> set[str]:
        """Returns those metrics of the run that are not read as curves."""
        return (set(tags) & self._last.keys()) - self._parts.keys()

    def all_data(self) -> RunData:
        """Returns the run with all its curves, which are not kept.

        Raises:
            UsageError: a file is damaged.
            OSError: a folder is a link.
        """
        self.refuse_links()
        return read_run(self.folder)

    def refuse_links(self) -> None:
        """Raises `OSError` if a folder of the run is a link, which may lead anywhere."""
        for folder in (self.folder.log, self.folder.checkpoints):
            if folder.is_symlink():
                raise OSError(ELOOP, "a symbolic link", str(folder))

    def row(self) -> Row:
        """Returns what the table shows of the run, as JSON has it."""
        self.is_changed = False
        run = self._with(self._last)
        record, env, policy = run.record, run.config.get("env") or {}, run.config.get("policy")
        step, updates, seconds = _progress(run)
        last = self._last.get(TAG)
        return {
            "id": self.id,
            "name": self.name,
            "state": self._state(run),
            "problem": _short(self.problem),
            "env": _short(env.get("env_id") or env.get("type")),
            "policy": _short((policy or {}).get("type")),
            "seed": _short(record.get("seed")),
            "best": _finite(self._best),
            "last": None if last is None else _finite(float(last[0, 3])),
            "env_step": step,
            "train_iter": updates,
            "seconds": round(seconds, 1),
            "rate": round(step / seconds, 1) if seconds > 0 else None,
            "started": _short(record.get("started"))[:19].replace("T", " "),
            "error": self.error,
        }

    @property
    def error(self) -> str:
        """Why the run failed; empty if it did not."""
        error = self._data.record.get("error")
        return _short(error.get("message") if isinstance(error, Mapping) else error)

    def _state(self, run: RunData) -> str:
        """Returns `running`, `done`, `solved`, `interrupted`, `failed`, `killed` or `unknown`."""
        if not run.record:
            return "unknown"
        try:
            state = run.state
        except OSError:  # the folder was removed a moment ago
            return "unknown"
        names = {"reached the stop value": "solved", "used up the budget": "done"}
        return names.get(state, _short(state))

    def _with(self, columns: Mapping[str, Floats]) -> RunData:
        return RunData(self.folder, self._data.record, self._data.config, columns)


def _progress(run: RunData) -> tuple[int, int, float]:
    """Returns the progress of a run; none where a stranger wrote numbers without end."""
    try:
        step, updates, seconds = run.progress
    except (OverflowError, ValueError):
        return 0, 0, 0.0
    return (step, updates, seconds) if max(step, updates) < LARGEST else (0, 0, 0.0)


def _short(value: object) -> str:
    """Returns a text of a run, which may be a stranger's: of any type, and long."""
    text = "" if value is None else str(value)
    text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _finite(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _stamp(file: Path) -> tuple[int, ...]:
    try:
        found = os.lstat(file)
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns
