"""The run's log: numbers and texts go in here and come out in every sink.

Values may be tensors until they arrive here; this is the one place that converts them.
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
    """Fans out to `metrics.jsonl`, the texts, and the configured loggers; itself an `ILogger`.

    Args:
        target: The run, as loggers see it.
        loggers: What is told besides; one that raises is switched off with one warning.
    """

    def __init__(self, target: LogTarget, loggers: Iterable[ILogger] = ()) -> None:
        self.target = target
        self._metrics: MetricsFile | None = MetricsFile(target.folder / "metrics.jsonl")
        self._loggers: list[ILogger] = []
        self._warned: set[str] = set()
        self._texts: dict[str, Any] | None = {}
        for each in loggers:
            self.add(each)

    def add(self, logger: ILogger) -> None:
        """Tells one more logger from now on."""
        self._loggers.append(logger)
        self._call(logger, "open", self.target)

    def log_scalars(self, scalars: Mapping[str, Any], *, env_step: int, train_iter: int) -> None:
        """Takes numbers by tag.

        Args:
            scalars: Plain numbers, numpy scalars, or arrays and tensors of one element. What is
                none of these is left out, with one warning for each tag; None is left out quietly.
            env_step: Env steps collected so far.
            train_iter: Updates made so far.
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
                _log.warning("%s is not written any more: %s", self.target.folder, error)
        for each in tuple(self._loggers):
            self._call(each, "log_scalars", numbers, env_step=env_step, train_iter=train_iter)

    def log_histogram(self, tag: str, values: Any, *, env_step: int, train_iter: int) -> None:
        """Takes the values of one quantity; shown by the loggers that can."""
        able = [each for each in self._loggers if isinstance(each, SupportsHistograms)]
        if not able:
            return
        detached = values.detach().cpu() if hasattr(values, "detach") else values
        array = np.asarray(detached, np.float64).reshape(-1)
        for each in able:
            self._call(each, "log_histogram", tag, array, env_step=env_step, train_iter=train_iter)

    def log_text(self, text: str, *, channel: str = "run") -> None:
        """Takes a text; it is appended to `log/<channel>/<channel>.txt` with the time."""
        if self._texts is not None:
            try:
                self._append(self._texts, channel, text)
            except OSError as error:
                self._close_texts()
                _log.warning("texts are not written any more: %s", error)
        for each in tuple(self._loggers):
            self._call(each, "log_text", text, channel=channel)

    def state_dict(self) -> dict[str, Any]:
        """Returns how far the metrics file is."""
        return {} if self._metrics is None else dict(self._metrics.position())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Cuts off the numbers that were written after the state was taken."""
        if self._metrics is not None and state:
            self._metrics.rewind(state)

    def flush(self) -> None:
        """Makes every logger hand on what it holds back."""
        for each in tuple(self._loggers):
            self._call(each, "flush")

    def close(self) -> None:
        """Closes every sink; harmless when repeated."""
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
        try:  # whatever a logger does, training goes on
            getattr(logger, method)(*args, **kwargs)
        except Exception as error:
            if logger in self._loggers:
                self._loggers.remove(logger)
                with suppress(Exception):
                    logger.close()  # its files and threads
            name = type(logger).__name__
            _log.warning("logger %s is switched off: %s: %s", name, type(error).__name__, error)

    def _number(self, tag: str, value: Any) -> float | None:
        if value is None:
            return None
        if tag in RESERVED:
            self._warn(tag, "its name is reserved")
            return None
        try:
            return float(value.item() if hasattr(value, "item") else value)
        except (TypeError, ValueError, RuntimeError) as error:
            self._warn(tag, f"not one number: {error}")
            return None

    def _warn(self, tag: str, reason: str) -> None:
        if tag not in self._warned:
            self._warned.add(tag)
            _log.warning("'%s' is not logged: %s", tag, reason)


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
