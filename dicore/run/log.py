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
import random
import stat
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from errno import EINVAL, ENOSPC
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from dicore.errors import UsageError
from dicore.interfaces.logger import ILogger, LogTarget, SupportsHistograms, SupportsProgress
from dicore.run.atomic import read_regular
from dicore.values import State, StateDict, Tree

__all__ = ["RESERVED", "LogHub", "MetricsFile", "read_metrics"]

_log = logging.getLogger(__name__)


@contextmanager
def _undrawn() -> Iterator[None]:
    """Gives Python's generator its state back: packages draw from it when they are imported."""
    state = random.getstate()
    try:
        yield
    finally:
        random.setstate(state)


class LogHub:
    """Passes numbers and texts to the files of the run and to all loggers; itself an `ILogger`.

    A file that cannot be written is tried again with each line; no failure ends a training.
    """

    def __init__(self, target: LogTarget, loggers: Iterable[ILogger] = ()) -> None:
        self.target = target
        self._warned: set[str] = set()
        self._metrics = MetricsFile(target.folder / "metrics.jsonl", self._warned)
        self._texts: dict[str, LineFile] = {}
        self._loggers: list[ILogger] = []
        self._called: set[tuple[int, str]] = set()
        for each in loggers:
            self.add(each)

    def add(self, logger: ILogger) -> None:
        """Adds a logger."""
        self._loggers.append(logger)
        self._call(logger, "open", self.target)

    def log_scalars(self, scalars: Mapping[str, object], *, env_step: int, train_iter: int) -> None:
        """Logs numbers by tag: numbers, numpy scalars, or arrays and tensors of one element.

        None is left out; other values are left out with one warning per tag.
        """
        numbers = {tag: number for tag, value in scalars.items()
                   if (number := self._number(tag, value)) is not None}  # fmt: skip
        if not numbers:
            return
        self._metrics.log_scalars(numbers, env_step=env_step, train_iter=train_iter)
        for each in tuple(self._loggers):
            self._call(each, "log_scalars", numbers, env_step=env_step, train_iter=train_iter)

    def log_histogram(self, tag: str, values: Tree, *, env_step: int, train_iter: int) -> None:
        """Passes the values of one quantity to the loggers that support histograms."""
        able = [each for each in self._loggers if isinstance(each, SupportsHistograms)]
        if not able:
            return
        detached = values.detach().cpu() if hasattr(values, "detach") else values
        array = np.asarray(detached, np.float64).reshape(-1)
        for each in able:
            self._call(each, "log_histogram", tag, array, env_step=env_step, train_iter=train_iter)

    def log_progress(self, *, env_step: int, train_iter: int) -> None:
        """Passes the counters to the loggers that show progress; writes nothing."""
        for each in tuple(self._loggers):
            if isinstance(each, SupportsProgress):
                self._call(each, "log_progress", env_step=env_step, train_iter=train_iter)

    def log_text(self, text: str, *, channel: str = "run") -> None:
        """Appends a text, with the time, to `log/<channel>/<channel>.txt`."""
        if channel not in self._texts:
            file = self.target.folder / channel / f"{channel}.txt"
            self._texts[channel] = LineFile(file, self._warned)
        self._texts[channel].append(f"[{datetime.now():%Y-%m-%d %H:%M:%S}] {text.rstrip()}")
        for each in tuple(self._loggers):
            self._call(each, "log_text", text, channel=channel)

    def state_dict(self) -> StateDict:
        """Returns the position in the metrics file."""
        return dict(self._metrics.position())

    def load_state_dict(self, state: State) -> None:
        """Removes the numbers that were written after the state was saved."""
        if state:
            self._metrics.rewind(state)

    def folder_is_new(self) -> None:
        """The folder was removed and is made again, as a warning said already."""
        self._warned.add("removed")

    def flush(self) -> None:
        """Flushes every logger; checkpoints do, so that their lines survive a kill."""
        for each in tuple(self._loggers):
            self._call(each, "flush")

    def close(self) -> None:
        """Closes all files and loggers; further calls do nothing."""
        for each in tuple(self._loggers):
            self._call(each, "close")
        self._loggers.clear()
        for file in (self._metrics, *self._texts.values()):
            file.close()

    def _call(self, logger: ILogger, method: str, *args: object, **kwargs: object) -> None:
        is_first = (call := (id(logger), method)) not in self._called  # it may import packages
        self._called.add(call)
        try:  # no failure of a logger may end a training
            with _undrawn() if is_first else nullcontext():
                getattr(logger, method)(*args, **kwargs)
        except (Exception, SystemExit) as error:
            if logger in self._loggers:
                self._loggers.remove(logger)
                with suppress(Exception, SystemExit):
                    logger.close()  # its files and threads
            name = type(logger).__name__
            _log.warning("logger %s is disabled: %s: %s", name, type(error).__name__, error)

    def _number(self, tag: str, value: Any) -> float | None:
        if value is None:
            return None
        if tag in RESERVED or not isinstance(tag, str):
            reason = "the name is reserved" if tag in RESERVED else "the name is not a text"
            _warn_once(self._warned, tag, f"'{tag}' is not logged: {reason}")
            return None
        try:
            return float(value.item() if hasattr(value, "item") else value)
        except Exception as error:  # of any conversion; a huge int raises OverflowError
            text = f"'{tag}' is not logged: not a single number: {error}"
            _warn_once(self._warned, tag, text)
            return None


def _warn_once(warned: set[str], key: str, text: str) -> None:
    if key not in warned:
        warned.add(key)
        _log.warning("%s", text)


RESERVED: Final = ("step", "train_iter", "time")
"""Members of every line; tags must have other names."""

_NON_FINITE: Final = ("NaN", "Infinity", "-Infinity")


class LineFile:
    """Appends lines to a file, unbuffered; the first line makes file and folder.

    Half a line that a crash left behind is removed. If writing fails, the last 1000 lines wait for
    the next call. `warned` holds what was warned of already.
    """

    def __init__(self, path: str | Path, warned: set[str] | None = None) -> None:
        self.path = Path(path)
        self._warned = set() if warned is None else warned
        self._waiting: deque[bytes] = deque(maxlen=1000)
        self._file: Any = None

    def append(self, line: str) -> None:
        """Writes one line, after those that wait; a failure is one warning."""
        self._waiting.append(line.encode("utf-8", "replace") + b"\n")
        try:
            self._write_waiting()
        except OSError as error:
            text = f"{self.path} is not written for now: {error.strerror}"
            _warn_once(self._warned, str(self.path), text)

    def close(self) -> None:
        """Closes the file after a last attempt to write; further calls do nothing."""
        with suppress(OSError):
            self._write_waiting()
        self._close_file()

    def _write_waiting(self) -> None:
        if self._file is not None and os.fstat(self._file.fileno()).st_nlink == 0:
            self._close_file()
            text = "was removed during training; it is made again, without the earlier lines"
            _warn_once(self._warned, "removed", f"{self.path} {text}")
        try:
            while self._waiting:
                self._write(self._waiting[0])
                self._waiting.popleft()
        except OSError:
            self._close_file()  # the next attempt removes half a line
            raise

    def _write(self, line: bytes) -> None:
        self._file = self._file or self._open()
        if self._file.write(line) < len(line):
            raise OSError(ENOSPC, os.strerror(ENOSPC))

    def _open(self) -> object:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = open_plain(self.path)
        file.truncate(_end_of_line(file, file.seek(0, os.SEEK_END)))
        return file

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class MetricsFile(LineFile):
    """A metrics file, with a position that checkpoints save."""

    def __init__(self, path: str | Path, warned: set[str] | None = None) -> None:
        super().__init__(path, warned)
        self._began = time.monotonic()

    def log_scalars(self, scalars: Mapping[str, float], *, env_step: int, train_iter: int) -> None:
        """Writes one line."""
        line: dict[str, Any] = {
            "step": int(env_step),
            "train_iter": int(train_iter),
            "time": round(time.monotonic() - self._began, 6),
        }
        for tag, value in scalars.items():
            line[tag] = value if math.isfinite(value) else json.dumps(value)  # one of _NON_FINITE
        self.append(json.dumps(line, ensure_ascii=False))

    def position(self) -> dict[str, float]:
        """Returns size of the file and seconds since its start, for `rewind`.

        Syncs the file first, so that a checkpoint never refers to lines that a crash may lose.
        """
        with suppress(OSError):
            self._write_waiting()
            if self._file is not None:
                os.fsync(self._file.fileno())
        size = self.path.stat().st_size if self.path.is_file() else 0
        return {"size": size, "time": time.monotonic() - self._began}

    def rewind(self, position: Mapping[str, float]) -> None:
        """Removes what was written after `position` and sets the time back to it.

        Raises `ValueError` for an invalid position, `UsageError` if the file cannot be written.
        """
        size, seconds = int(position["size"]), float(position["time"])
        if size < 0 or not math.isfinite(seconds):
            raise ValueError(f"invalid position: {size} bytes, {seconds} s")
        self._close_file()
        self._began = time.monotonic() - seconds
        if not os.path.lexists(self.path):
            return
        try:
            with open_plain(self.path) as file:
                size = min(size, file.seek(0, os.SEEK_END))
                file.truncate(_end_of_line(file, size))
        except OSError as error:
            raise UsageError(f"{self.path}: cannot be written: {error.strerror}") from error


def open_plain(path: Path) -> BinaryIO:
    """Opens a regular file to read and append, unbuffered; refuses links, pipes and devices."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    file = os.fdopen(os.open(path, flags, 0o666), "r+b", buffering=0)
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(EINVAL, "not a regular file")
    return file


def read_metrics(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yields the lines of a metrics file, with non-finite values as floats.

    Leaves out a last line that a crash cut off; raises `UsageError` for any other that is not JSON.
    """
    try:
        raw = read_regular(path).split(b"\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    for number, line in enumerate(raw[:-1], start=1):
        try:
            values = json.loads(line).items()
        except (AttributeError, RecursionError, ValueError):
            raise UsageError(f"{path}, line {number}: not a JSON object: {line[:40]!r}") from None
        yield {tag: float(v) if v in _NON_FINITE else v for tag, v in values}


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
