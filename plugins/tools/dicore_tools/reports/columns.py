"""Reads the metrics file of a run at once, as columns.

Shapes: P points of a metric.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from dicore.errors import UsageError
from dicore.run.atomic import read_regular
from dicore.run.log import RESERVED, read_metrics

__all__ = ["AT", "read_columns"]

Floats = npt.NDArray[np.float64]

AT: Final = ("step", "train_iter", "time")
"""Where a value was logged: the first columns of a metric."""
_LARGEST: Final = 1e150
"""Larger numbers are left out like infinite ones: their squares are no float64."""


def read_columns(path: Path) -> dict[str, Floats]:
    """Returns the finite values of each metric.

    Args:
        path: `log/metrics.jsonl` of a run, or a file of the same form.

    Returns:
        For each metric float64 [P, 4]: env step, update, seconds, value; by env step, then in the
        order of the file.

    Raises:
        UsageError: a line is not one of metrics.
        OSError: the file cannot be read.
    """
    try:
        return _columns(path)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        text = f"cannot read {path}: a line is not one of metrics: {error}"
        raise UsageError(text) from None


def _columns(path: Path) -> dict[str, Floats]:
    """Lines with the same members become one array, which is ten times as fast as one by one."""
    alike: dict[tuple[str, ...], list[list[object]]] = {}
    for number, line in enumerate(_lines(path)):
        alike.setdefault(tuple(line), []).append([*line.values(), number])
    found: dict[str, list[Floats]] = {}
    for names, rows in alike.items():
        table = np.array(rows, np.float64)  # the texts NaN and Infinity are numbers of Python
        finite = np.abs(table) < _LARGEST
        where = [*map(names.index, AT), len(names)]
        placed = finite[:, where].all(1)
        for tag in (name for name in names if name not in RESERVED):
            column = names.index(tag)
            kept = placed & finite[:, column]
            if kept.any():
                found.setdefault(tag, []).append(table[kept][:, [*where, column]])
    columns = {}
    for tag, parts in found.items():
        points = np.concatenate(parts)
        columns[tag] = points[np.lexsort(points[:, [3, 0]].T)][:, [0, 1, 2, 4]]
    return columns


def _lines(path: Path) -> Iterable[dict[str, object]]:
    """Returns the lines of a metrics file; all are parsed at once, unless one is damaged."""
    try:
        raw = read_regular(path)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    raw = raw[: raw.rfind(b"\n") + 1]
    with suppress(RecursionError, ValueError):
        lines: list[dict[str, object]] = json.loads(b"[" + raw[:-1].replace(b"\n", b",") + b"]")
        if len(lines) == raw.count(b"\n"):
            return lines
    return read_metrics(path)
