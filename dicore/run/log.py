"""The run's log: `log/metrics.jsonl`, text files, and the configured loggers.

`metrics.jsonl` has one JSON object a line:

    {"step": 4096, "train_iter": 3840, "time": 1.73, "evaluator/return_mean": 312.4}

`step` is the env step, `time` counts seconds since the start of the run. JSON has no non-finite
numbers: they are written as the strings "NaN", "Infinity" and "-Infinity", which Python's `float`
and JavaScript's `Number` parse.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from dicore.errors import UsageError
from dicore.interfaces.logger import ILogger, LogTarget, SupportsHistograms

__all__ = ["RESERVED", "LogHub", "MetricsFile", "read_metrics"]

_log = logging.getLogger(__name__)


class LogHub:
    """Passes numbers and texts to the files of the run and to all loggers; itself an `ILogger`."""

    def __init__(self, target: LogTarget, loggers: Iterable[ILogger] = ()) -> None:
        self.target = target
        self._metrics: MetricsFile | None = MetricsFile(target.folder / "metrics.jsonl")
        self._loggers: list[ILogger] = []
        self._warned: set[str] = set()
        self._texts: dict[str, Any] | None = {}
        for each in loggers:
            self.add(each)

    def add(self, logger: ILogger) -> None:
        """Adds a logger."""
        self._loggers.append(logger)
        self._call(logger, "open", self.target)

    def log_scalars(self, scalars: Mapping[str, Any], *, env_step: int, train_iter: int) -> None:
        """Logs numbers by tag: numbers, numpy scalars, or arrays and tensors of one element.

        None is left out; other values are left out with one warning per tag.
        """
        numbers = {tag: number for tag, value in scalars.items()
                   if (number := self._number(tag, value)) is not None}  # fmt: skip
        if not numbers:
            return
        if self._metrics is not None:
            try:
                self._metrics.log_scalars(numbers, env_step=env_step, train_iter=train_iter)
            except OSError as error:
                self._metrics = None
                _log.warning("metrics are no longer written to %s: %s", self.target.folder, error)
        for each in tuple(self._loggers):
            self._call(each, "log_scalars", numbers, env_step=env_step, train_iter=train_iter)

    def log_histogram(self, tag: str, values: Any, *, env_step: int, train_iter: int) -> None:
        """Passes the values of one quantity to the loggers that support histograms."""
        able = [each for each in self._loggers if isinstance(each, SupportsHistograms)]
        if not able:
            return
        detached = values.detach().cpu() if hasattr(values, "detach") else values
        array = np.asarray(detached, np.float64).reshape(-1)
        for each in able:
            self._call(each, "log_histogram", tag, array, env_step=env_step, train_iter=train_iter)

    def log_text(self, text: str, *, channel: str = "run") -> None:
        """Appends a text, with the time, to `log/<channel>/<channel>.txt`."""
        if self._texts is not None:
            try:
                self._append(self._texts, channel, text)
            except OSError as error:
                self._close_texts()
                _log.warning("texts are no longer written: %s", error)
        for each in tuple(self._loggers):
            self._call(each, "log_text", text, channel=channel)

    def state_dict(self) -> dict[str, Any]:
        """Returns the position in the metrics file."""
        return {} if self._metrics is None else dict(self._metrics.position())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Removes the numbers that were written after the state was saved."""
        if self._metrics is not None and state:
            self._metrics.rewind(state)

    def flush(self) -> None:
        """Flushes every logger."""
        for each in tuple(self._loggers):
            self._call(each, "flush")

    def close(self) -> None:
        """Closes all files and loggers; further calls do nothing."""
        for each in tuple(self._loggers):
            self._call(each, "close")
        self._loggers.clear()
        self._close_texts()
        if self._metrics is not None:
            self._metrics.close()

    def _append(self, texts: dict[str, Any], channel: str, text: str) -> None:
        if channel not in texts:
            file = self.target.folder / channel / f"{channel}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            texts[channel] = file.open("ab", buffering=0)
        line = f"[{datetime.now():%Y-%m-%d %H:%M:%S}] {text.rstrip()}\n"
        texts[channel].write(line.encode("utf-8", "replace"))

    def _close_texts(self) -> None:
        for file in (self._texts or {}).values():
            file.close()
        self._texts = None

    def _call(self, logger: ILogger, method: str, *args: Any, **kwargs: Any) -> None:
        try:  # no failure of a logger may end a training
            getattr(logger, method)(*args, **kwargs)
        except Exception as error:
            if logger in self._loggers:
                self._loggers.remove(logger)
                with suppress(Exception):
                    logger.close()  # its files and threads
            name = type(logger).__name__
            _log.warning("logger %s is disabled: %s: %s", name, type(error).__name__, error)

    def _number(self, tag: str, value: Any) -> float | None:
        if value is None:
            return None
        if tag in RESERVED:
            self._warn(tag, "the name is reserved")
            return None
        try:
            return float(value.item() if hasattr(value, "item") else value)
        except (TypeError, ValueError, RuntimeError) as error:
            self._warn(tag, f"not a single number: {error}")
            return None

    def _warn(self, tag: str, reason: str) -> None:
        if tag not in self._warned:
            self._warned.add(tag)
            _log.warning("'%s' is not logged: %s", tag, reason)


RESERVED: Final = ("step", "train_iter", "time")
"""Members of every line; tags must have other names."""

_NON_FINITE: Final = {"NaN", "Infinity", "-Infinity"}


class MetricsFile:
    """Appends lines to a metrics file, unbuffered; the first line makes file and folder."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._began = time.monotonic()
        self._file: Any = None

    def log_scalars(self, scalars: Mapping[str, float], *, env_step: int, train_iter: int) -> None:
        """Writes one line."""
        line: dict[str, Any] = {
            "step": env_step,
            "train_iter": train_iter,
            "time": round(time.monotonic() - self._began, 6),
        }
        for tag, value in scalars.items():
            line[tag] = value if math.isfinite(value) else _non_finite(value)
        if self._file is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("ab", buffering=0)
        self._file.write(json.dumps(line, ensure_ascii=False).encode("utf-8", "replace") + b"\n")

    def position(self) -> dict[str, float]:
        """Returns size of the file and seconds since its start, for `rewind`.

        Syncs the file first, so that a checkpoint never refers to lines that a crash may lose.
        """
        if self._file is not None:
            os.fsync(self._file.fileno())
            if not self.path.exists():  # it was removed; the next line makes a new one
                self.close()
        size = self.path.stat().st_size if self.path.is_file() else 0
        return {"size": size, "time": time.monotonic() - self._began}

    def rewind(self, position: Mapping[str, float]) -> None:
        """Removes what was written after `position` and sets the time back to it.

        Raises `ValueError` for an invalid position, `UsageError` if the file is a symbolic link.
        """
        size, seconds = int(position["size"]), float(position["time"])
        if size < 0 or not math.isfinite(seconds):
            raise ValueError(f"invalid position: {size} bytes, {seconds} s")
        self.close()
        self._began = time.monotonic() - seconds
        if self.path.is_symlink():
            raise UsageError(f"{self.path}: a symbolic link; refusing to write to it")
        if self.path.is_file():
            with self.path.open("r+b") as file:
                size = min(size, file.seek(0, os.SEEK_END))
                file.truncate(_end_of_line(file, size))

    def close(self) -> None:
        """Closes the file; further calls do nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None


def read_metrics(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yields the lines of a metrics file, with non-finite values as floats.

    Leaves out a last line that a crash cut off; raises `UsageError` for any other that is not JSON.
    """
    raw = Path(path).read_bytes().split(b"\n")
    for number, line in enumerate(raw[:-1], start=1):
        try:
            values = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{path}, line {number}: not a JSON object: {error}") from None
        yield {tag: float(v) if v in _NON_FINITE else v for tag, v in values.items()}


def _end_of_line(file: BinaryIO, size: int) -> int:
    """Returns the end of the last complete line within the first `size` bytes."""
    while size > 0:
        begin = max(0, size - 4096)
        file.seek(begin)
        found = file.read(size - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        size = begin
    return 0


def _non_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
