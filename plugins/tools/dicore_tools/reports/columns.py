"""Reads the metrics file of a run as columns: at once, or what was appended since the last look.

Shapes: P points of a metric.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from dicore.console import plural
from dicore.errors import UsageError
from dicore.run.atomic import open_regular, read_regular
from dicore.run.log import RESERVED

__all__ = [
    "AT",
    "LARGEST",
    "Appended",
    "Columns",
    "MetricsTail",
    "MetricsWarning",
    "joined",
    "read_columns",
]

Floats = npt.NDArray[np.float64]

AT: Final = ("step", "train_iter", "time")
"""Where a value was logged: the first columns of a metric."""
LARGEST: Final = 1e150
"""Larger numbers are left out like infinite ones: their squares are no float64."""
_ODD: Final = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
"""Errors of lines that are not of metrics."""
_NOT_FINITE: Final = re.compile(rb':\s*"?-?(?:NaN|Infinity)\b')
_MOST_BYTES: Final = 32 << 20
"""What is read of a file in one piece."""
_MARK_BYTES: Final = 256
"""What is compared to see that the part already read is still that of the file."""


class MetricsWarning(UserWarning):
    """Part of a metrics file is damaged and left out."""


class Columns(dict[str, Floats]):
    """Finite values by metric, and how many values of each were left out as not finite."""

    def __init__(self, *columns: Mapping[str, Floats]) -> None:
        super().__init__(*columns)
        self.not_finite: dict[str, int] = {}


def read_columns(path: Path) -> Columns:
    """Returns the finite values of each metric.

    Args:
        path: `log/metrics.jsonl` of a run, or a file of the same form.

    Returns:
        For each metric float64 [P, 4]: env step, update, seconds, value; by env step, then in the
        order of the file. Metrics without a finite value are in `not_finite` alone.

    Warns:
        MetricsWarning: a line is not one of metrics; it is left out.

    Raises:
        UsageError: the file cannot be read, or no line is one of metrics.
    """
    try:
        raw = read_regular(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    raw = raw[: raw.rfind(b"\n") + 1]
    found = _at_once(raw)
    if found is not None:
        with suppress(*_ODD):
            return _columns(found)
    return _undamaged(path, raw.split(b"\n")[:-1])


def _undamaged(path: Path, lines: list[bytes]) -> Columns:
    """Returns the columns of those lines that are of metrics; warns of the others."""
    good: list[dict[str, Any]] = []
    damaged: list[tuple[int, str]] = []
    for number, line in enumerate(lines, 1):
        values: object = None
        try:
            values = json.loads(line)
            _columns([cast("dict[str, Any]", values)])
        except _ODD:
            damaged.append((number, _damage(values)))
        else:
            good.append(cast("dict[str, Any]", values))
    number, why = damaged[0]
    if not good:
        raise UsageError(f"cannot read {path}: line {number} is not one of metrics: {why}")
    others = f", and {plural(len(damaged) - 1, 'other')}" if len(damaged) > 1 else ""
    warnings.warn(
        f"{path}: line {number} left out, not one of metrics: {why}{others}",
        MetricsWarning,
        stacklevel=3,
    )
    return _columns(good)


def _damage(values: object) -> str:
    """Returns what is wrong with a line of a metrics file."""
    if not isinstance(values, dict):
        return "not a JSON object"
    missing = [name for name in AT if name not in values]
    return f"it has no {' and no '.join(missing)}" if missing else "a value is not a number"


class Appended(NamedTuple):
    """What `MetricsTail.read` found.

    Args:
        columns: For each metric the new values, as of `read_columns`: all values of the metrics
            that were asked for, at least one of the others.
        anew: The file was cut or replaced: what was read before is no longer in it.
        damaged: Lines that are not of metrics, of those that were looked at; they are left out.
        more: Part of the file is not read yet.
        not_finite: Values of the new lines that are not finite; they are left out.
    """

    columns: dict[str, Floats]
    anew: bool
    damaged: int
    more: bool
    not_finite: int = 0


class MetricsTail:
    """Reads a metrics file that is being written, each line once.

    Args:
        path: The file; it may not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, ...] = ()
        self._offset, self._mark = 0, b""

    def restart(self) -> None:
        """Lets the next `read` begin at the start of the file."""
        self._stamp, self._offset, self._mark = (), 0, b""

    def read(self, tags: Collection[str]) -> Appended | None:
        """Returns what was appended since the last call, at most 32 MiB; None: nothing.

        Only the lines of the metrics that are asked for, one line of each form and the last are
        parsed: a file of which few are wanted is read ten times as fast. A last line that is still
        being written is left for the next call.

        Args:
            tags: The metrics.

        Raises:
            OSError: the file cannot be read, or it is a link.
        """
        try:
            stamp = _stamp(self._path.lstat())
        except FileNotFoundError:
            anew = self._offset > 0
            self.restart()
            return Appended({}, anew, 0, False) if anew else None
        if stamp == self._stamp:
            return None
        with open_regular(self._path) as file:
            size = os.fstat(file.fileno()).st_size
            anew = not self._continues(file, size)
            if anew:
                self.restart()
            file.seek(self._offset)
            data = file.read(min(size - self._offset, _MOST_BYTES))
        end = self._offset + len(data)
        data = data[: data.rfind(b"\n") + 1]
        more = end < size and bool(data)  # a line larger than a piece is none of metrics
        self._offset += len(data)
        self._mark = (self._mark + data[-_MARK_BYTES:])[-_MARK_BYTES:]
        self._stamp = () if more else stamp
        columns, damaged = _parsed(_chosen(data, tags))
        return Appended(columns, anew, damaged, more, len(_NOT_FINITE.findall(data)))

    def _continues(self, file: BinaryIO, size: int) -> bool:
        """Returns whether the file still has what was read of it."""
        if size < self._offset:
            return False
        file.seek(self._offset - len(self._mark))
        return file.read(len(self._mark)) == self._mark


def joined(parts: list[Floats]) -> Floats:
    """Returns the values of a metric that were read one after the other, by env step."""
    points = parts[0] if len(parts) == 1 else np.concatenate(parts)
    if (points[1:, 0] < points[:-1, 0]).any():
        points = points[np.argsort(points[:, 0], kind="stable")]
    return points


def _chosen(raw: bytes, tags: Collection[str]) -> list[bytes]:
    """Returns those of some whole lines that `MetricsTail.read` parses."""
    names = [json.dumps(tag, ensure_ascii=False).encode("utf-8", "replace") for tag in tags]
    lines = raw.split(b"\n")[:-1]
    forms: set[bytes] = set()
    chosen = []
    for line in lines:
        form = b'"'.join(line.split(b'"')[1::2])  # the names
        if form not in forms or any(name in line for name in names) or line is lines[-1]:
            forms.add(form)
            chosen.append(line)
    return chosen


def _parsed(lines: list[bytes]) -> tuple[dict[str, Floats], int]:
    """Returns the columns of lines, and how many are damaged."""
    found = _at_once(b"".join(line + b"\n" for line in lines))
    if found is not None:
        with suppress(*_ODD):
            return _columns(found), 0
    good: list[dict[str, Any]] = []
    for line in lines:
        with suppress(*_ODD):
            values = json.loads(line)
            _columns([values])
            good.append(values)
    return _columns(good), len(lines) - len(good)


def _stamp(status: os.stat_result) -> tuple[int, ...]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _columns(lines: Iterable[dict[str, Any]]) -> Columns:
    """Lines with the same members become one array, which is ten times as fast as one by one."""
    alike: dict[tuple[str, ...], list[list[object]]] = {}
    for number, line in enumerate(lines):
        alike.setdefault(tuple(line), []).append([*line.values(), number])
    found: dict[str, list[Floats]] = {}
    columns = Columns()
    for names, rows in alike.items():
        table = np.array(rows, np.float64)  # the texts NaN and Infinity are numbers of Python
        finite = np.abs(table) < LARGEST
        where = [*map(names.index, AT), len(names)]
        placed = finite[:, where].all(1)
        for tag in (name for name in names if name not in RESERVED):
            column = names.index(tag)
            kept = placed & finite[:, column]
            if count := int(placed.sum() - kept.sum()):
                columns.not_finite[tag] = columns.not_finite.get(tag, 0) + count
            if kept.any():
                found.setdefault(tag, []).append(table[kept][:, [*where, column]])
    for tag, parts in found.items():
        points = np.concatenate(parts)
        columns[tag] = points[np.lexsort(points[:, [3, 0]].T)][:, [0, 1, 2, 4]]
    return columns


def _at_once(raw: bytes) -> list[dict[str, Any]] | None:
    """Parses whole lines together; None: one is damaged."""
    with suppress(RecursionError, ValueError):
        lines: list[dict[str, Any]] = json.loads(b"[" + raw[:-1].replace(b"\n", b",") + b"]")
        if len(lines) == raw.count(b"\n"):
            return lines
    return None
