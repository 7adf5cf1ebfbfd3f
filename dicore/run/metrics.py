"""`log/metrics.jsonl`: every logged number of a run, one JSON object a line.

    {"step": 4096, "train_iter": 3840, "time": 1.73, "evaluator/return_mean": 312.4}

`step` is the env step, `time` counts seconds since the run began. JSON has no word for what is not
finite: such values stand as the strings "NaN", "Infinity" and "-Infinity", which both Python's
`float` and JavaScript's `Number` read.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

from dicore.errors import UsageError

__all__ = ["RESERVED", "MetricsFile", "read_metrics"]

RESERVED: Final = ("step", "train_iter", "time")
"""Members of every line; no tag may have one of these names."""

_WORDS: Final = {"NaN", "Infinity", "-Infinity"}


class MetricsFile:
    """Appends lines to a metrics file; each is whole as soon as it is written.

    Args:
        path: The file; made, with its folder, by the first line.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._began = time.monotonic()
        self._file: Any = None

    def log_scalars(self, scalars: Mapping[str, float], *, env_step: int, train_iter: int) -> None:
        """Writes one line.

        Raises:
            OSError: the disk refuses.
        """
        line: dict[str, Any] = {
            "step": env_step,
            "train_iter": train_iter,
            "time": round(time.monotonic() - self._began, 6),
        }
        for tag, value in scalars.items():
            line[tag] = value if math.isfinite(value) else _word(value)
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("ab", buffering=0)
        self._file.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")

    def position(self) -> dict[str, float]:
        """Returns the size of the file and the seconds it tells, to come back to by `rewind`.

        The disk has the lines before it returns, so that a state never knows more than the file.
        """
        if self._file is not None:
            os.fsync(self._file.fileno())
            if not self.path.exists():  # somebody removed it; the next line makes another
                self.close()
        size = self.path.stat().st_size if self.path.is_file() else 0
        return {"size": size, "time": time.monotonic() - self._began}

    def rewind(self, position: Mapping[str, float]) -> None:
        """Cuts off what was written after `position`; the time goes on from there.

        Raises:
            ValueError: there is no such position.
            UsageError: the file is a link, which might lead anywhere.
            OSError: the disk refuses.
        """
        size, seconds = int(position["size"]), float(position["time"])
        if size < 0 or not math.isfinite(seconds):
            raise ValueError(f"no position: {size} bytes, {seconds} s")
        self.close()
        self._began = time.monotonic() - seconds
        if self.path.is_symlink():
            raise UsageError(f"{self.path}: a link, which is not written to")
        if self.path.is_file():
            with self.path.open("r+b") as file:
                size = min(size, file.seek(0, os.SEEK_END))
                file.truncate(_end_of_line(file, size))

    def close(self) -> None:
        """Closes the file; harmless when repeated."""
        if self._file is not None:
            self._file.close()
            self._file = None


def read_metrics(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yields the lines of a metrics file with non-finite values as floats again.

    A last line that was cut off by a crash is left out.

    Raises:
        UsageError: another line is no JSON object.
    """
    raw = Path(path).read_bytes().split(b"\n")
    for number, line in enumerate(raw[:-1], start=1):
        try:
            values = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{path}, line {number}: no JSON object: {error}") from None
        yield {tag: float(v) if v in _WORDS else v for tag, v in values.items()}


def _end_of_line(file: BinaryIO, size: int) -> int:
    """Returns where the last whole line within the first `size` bytes ends."""
    while size > 0:
        begin = max(0, size - 4096)
        file.seek(begin)
        found = file.read(size - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        size = begin
    return 0


def _word(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
