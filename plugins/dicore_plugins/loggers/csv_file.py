"""The metrics of a run as one table, for spreadsheets and pandas."""

from __future__ import annotations

import csv
import io
import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, Final

from dicore.errors import UsageError
from dicore.interfaces.logger import LogTarget
from dicore.run.atomic import write_file

_LOG = logging.getLogger("dicore.csv")
_FIRST: Final = ("env_step", "train_iter", "time")
_MAX_WAITING: Final = 1000
"""Rows that are kept while the file cannot be written."""


class CsvLogger:
    """Writes `log/progress.csv`: a row per step at which something was logged, a column per metric.

    The file is a complete table at any time: a metric that appears later becomes a new column. A
    resumed run continues it after the rows of its checkpoint. If writing fails, as on a full disk,
    it is tried again with the next row.

    Args:
        name: Name of the file in the run's `log` folder.
    """

    def __init__(self, *, name: str = "progress.csv") -> None:
        if Path(name).name != name or not name.strip("."):
            raise UsageError(f"csv: expected the name of a file, without a folder, got {name!r}")
        self._name = name
        self._path = Path()
        self._began = time.monotonic()
        self._columns: list[str] = []
        self._row: dict[str, Any] = {}
        self._waiting: deque[dict[str, Any]] = deque(maxlen=_MAX_WAITING)
        self._file: IO[bytes] | None = None
        self._size = 0
        self._warned = False

    def open(self, target: LogTarget) -> None:
        """Keeps the rows up to the checkpoint of a resumed run; other runs begin a new table."""
        self._path = target.folder / self._name
        rows = _rows(self._path)
        if target.resumed_at is None or not rows:
            self._path.unlink(missing_ok=True)
            return
        kept = [row for row in rows[1:] if _is_within(row, target.resumed_at)]
        self._columns = rows[0][len(_FIRST) :]
        if kept:
            self._began -= float(kept[-1][2])
        write_file(self._path, _text([rows[0], *kept]))

    def log_scalars(self, scalars: Mapping[str, float], *, env_step: int, train_iter: int) -> None:
        """Adds the metrics to the row of this step; the row before it is written."""
        if not scalars:
            return
        if self._row.get("env_step") != env_step or self._row.get("train_iter") != train_iter:
            self._end_row()
            seconds = round(time.monotonic() - self._began, 3)
            self._row = {"env_step": env_step, "train_iter": train_iter, "time": seconds}
        self._row.update((f"{tag} (logged)" if tag in _FIRST else tag, scalars[tag])
                         for tag in scalars)  # fmt: skip

    def log_text(self, text: str, *, channel: str = "run") -> None:
        """Ignores texts: the run writes them to files."""

    def flush(self) -> None:
        """Writes the last row."""
        self._end_row()

    def close(self) -> None:
        """Writes the last row and closes the file; may be called twice."""
        self._end_row()
        self._close_file()

    def _end_row(self) -> None:
        if self._row:
            self._waiting.append(self._row)
            self._row = {}
        try:
            self._write_waiting()
        except OSError as error:
            self._close_file()
            if not self._warned:
                self._warned = True
                reason = error.strerror or error
                _LOG.warning("%s is not written for now: %s", self._path, reason)

    def _write_waiting(self) -> None:
        while self._waiting:
            row = self._waiting[0]
            new = [tag for tag in row if tag not in _FIRST and tag not in self._columns]
            if new or self._file is None or not self._path.exists():
                self._open(self._columns + new)
            assert self._file is not None
            line = _text([[row.get(column, "") for column in (*_FIRST, *self._columns)]])
            if self._file.write(line) < len(line):
                raise OSError(f"only a part of a row of {len(line)} bytes was written")
            self._size += len(line)
            self._waiting.popleft()

    def _open(self, columns: list[str]) -> None:
        """Opens the table with these columns; removes a part of a row that failed."""
        self._close_file()
        self._path.parent.mkdir(parents=True, exist_ok=True)
        rows = _rows(self._path)
        if not rows or rows[0][len(_FIRST) :] != columns:
            blank = [""] * (len(columns) - len(self._columns))
            width = len(_FIRST) + len(self._columns)
            kept = [row + blank for row in rows[1:] if len(row) == width]
            write_file(self._path, _text([[*_FIRST, *columns], *kept]))
            self._columns, self._size = columns, 0
        self._file = self._path.open("ab", buffering=0)
        if self._size:
            self._file.truncate(self._size)
        self._size = self._path.stat().st_size

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _rows(path: Path) -> list[list[str]]:
    """Returns all complete rows of a table, the header first; nothing if there is no file."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return list(csv.reader(io.StringIO(text[: text.rfind("\n") + 1], newline="")))


def _is_within(row: list[str], reached: tuple[int, int]) -> bool:
    """Returns whether a row was logged up to env step and update `reached`."""
    try:
        return int(row[0]) <= reached[0] and int(row[1]) <= reached[1] and float(row[2]) >= 0
    except (IndexError, ValueError):
        return False


def _text(rows: Iterable[Iterable[Any]]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()
