"""Loggers whose library runs in a process of its own, fed by a pipe that never blocks.

Libraries of tracking services start threads and processes, print, and wait for their servers. In a
process of their own none of this reaches the training.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import IO, Any, ClassVar, Final, Literal, Protocol

from dicore.errors import DicoreError
from dicore.interfaces.logger import LogTarget
from dicore.run.atomic import read_json

__all__ = ["Axis", "ChildLogger", "IWriter", "serve", "settings_of"]

Axis = Literal["env_step", "train_iter"]

_LOG = logging.getLogger("dicore.logger")
_MAX_WAITING: Final = 20_000
"""Messages that wait for a slow process; beyond, the oldest are dropped."""
_PAUSE_S: Final = 0.005
_PIPE_BYTES: Final = 1 << 20
"""Size of the pipe, where the system can set it: messages of a short run fit into it."""
_LONGEST_END_S: Final = 600
"""Time after which a process ends that is still busy after the end of the training."""
_PROGRAM: Final = (
    "from importlib import import_module as i; from {base} import serve;"
    " serve(i('{module}').{name})"
)


class IWriter(Protocol):
    """Writes messages to a service, in the process of its own.

    Every message of `ChildLogger.send` calls the method that it names.
    """

    def close(self) -> None:
        """Called once after the last message, or when the training was killed."""


class ChildLogger:
    """A logger that passes its messages to an `IWriter` in another process.

    The process starts with the first message. Messages wait in memory while it is busy; those that
    exceed the limit are dropped with one warning. If the process ends early, the next call raises
    `DicoreError` with the last line that it printed, and the log disables the logger. The process
    ends by itself when the training ends in whatever way; if it is still busy after `close_s`, it
    goes on without the training.

    Args:
        close_s: Longest time in seconds that `close` waits for the process.
        axis: The count that the service shows as step.
        **options: Passed to the writer's method `open`, after `folder`, `title` and `resumed_at`:
            env step and update of the checkpoint of a resumed run, else None.
    """

    writer: ClassVar[str]
    """The writer as `module:Class`; its constructor takes no arguments."""

    def __init__(
        self, close_s: float = 20.0, *, axis: Axis = "env_step", **options: object
    ) -> None:
        self.close_s = close_s
        self._axis: Axis = axis
        self._options = options
        self._target: LogTarget | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._waiting: deque[bytes] = deque()
        self._dropped = 0

    @property
    def output_file(self) -> Path:
        """The file that takes what the process prints."""
        assert self._target is not None, "open() comes first"
        name = self.writer.rpartition(":")[2].removesuffix("Writer").lower()
        return self._target.folder / name / f"{name}.txt"

    def opening(self, target: LogTarget) -> dict[str, Any]:
        """Returns the arguments of the writer's method `open`, its first message."""
        place = {"folder": str(target.folder.resolve()), "title": target.title}
        return {**place, "resumed_at": target.resumed_at, **self._options}

    def open(self, target: LogTarget) -> None:
        """Stores the target; the first message starts the process."""
        self._target = target

    def log_scalars(self, scalars: Mapping[str, float], *, env_step: int, train_iter: int) -> None:
        """Passes metrics to the writer's method `log`, if there are any.

        Its arguments are `scalars`, `counts` (`env_step` and `train_iter`), `step` (the one that
        `axis` names) and `when` (milliseconds since 1970).
        """
        if scalars:
            counts = {"env_step": env_step, "train_iter": train_iter}
            when = round(datetime.now().timestamp() * 1000)
            values = dict(scalars)
            self.send("log", scalars=values, counts=counts, step=counts[self._axis], when=when)

    def log_text(self, text: str, *, channel: str = "run") -> None:
        """Ignores texts: the run writes them to files."""

    def flush(self) -> None:
        """Tells the writer to flush, without waiting for it."""
        if self._child is not None:
            self.send("flush")

    def send(self, method: str, **arguments: Any) -> None:
        """Passes a message on; never waits.

        Args:
            method: Method of the writer.
            **arguments: Its arguments, as JSON can hold them.

        Raises:
            DicoreError: the process has ended.
        """
        if self._child is None:
            assert self._target is not None, "open() comes first"
            self._start()
            self._add("open", self.opening(self._target))
        self._add(method, arguments)
        self._pump()

    def close(self) -> None:
        """Passes on what waits, and ends the process; may be called twice."""
        child, self._child = self._child, None
        if child is None:
            return
        until = time.monotonic() + self.close_s
        with suppress(DicoreError):
            while self._waiting and time.monotonic() < until:
                self._pump_to(child)
                if self._waiting:
                    time.sleep(_PAUSE_S)
        assert child.stdin is not None
        with suppress(OSError):
            child.stdin.close()
        self._dropped += len(self._waiting)
        self._waiting.clear()
        self._end(child, max(until - time.monotonic(), 0.1))
        if self._dropped:
            text = "%s: %d messages were not logged; log/metrics.jsonl has them"
            _LOG.warning(text, type(self).__name__, self._dropped)

    def _start(self) -> None:
        module, _, name = self.writer.partition(":")
        program = _PROGRAM.format(base=__name__, module=module, name=name)
        self.output_file.parent.mkdir(parents=True, exist_ok=True)
        with self.output_file.open("ab") as printed:
            self._child = subprocess.Popen(  # noqa: S603 - our own interpreter and our own program
                [sys.executable, "-P", "-c", program],
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=subprocess.STDOUT,
                bufsize=0,
                start_new_session=True,  # Ctrl-C is for the training
            )
        assert self._child.stdin is not None
        os.set_blocking(self._child.stdin.fileno(), False)
        with suppress(ImportError, AttributeError, OSError):  # of systems other than Linux
            import fcntl

            fcntl.fcntl(self._child.stdin, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

    def _add(self, method: str, arguments: Mapping[str, Any]) -> None:
        if len(self._waiting) >= _MAX_WAITING:
            if not self._dropped:
                text = "%s is too slow: its oldest messages are dropped"
                _LOG.warning(text, type(self).__name__)
            self._dropped += 1
            del self._waiting[1]  # a part of the first may have been written
        self._waiting.append(json.dumps([method, arguments]).encode() + b"\n")

    def _pump(self) -> None:
        assert self._child is not None
        self._pump_to(self._child)

    def _pump_to(self, child: subprocess.Popen[bytes]) -> None:
        """Writes what the pipe takes at once."""
        assert child.stdin is not None
        try:
            while self._waiting:
                line = self._waiting[0]
                written: int | None = child.stdin.write(line)
                if written is None:  # the pipe is full
                    return
                if written < len(line):
                    self._waiting[0] = line[written:]
                else:
                    self._waiting.popleft()
        except OSError as error:
            reason = _last_line(self.output_file) or str(error)
            raise DicoreError(
                f"its process has ended: {reason}", hint=f"{self.output_file} has its whole output"
            ) from error

    def _end(self, child: subprocess.Popen[bytes], seconds: float) -> None:
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            child.returncode = 0  # it is not waited for; `serve` ends it
            text = "%s: its process (%d) goes on with its last messages, for %d s at most"
            _LOG.warning(text, type(self).__name__, child.pid, _LONGEST_END_S)
            return
        if code:
            text = "%s: its process failed: %s (%s)"
            _LOG.warning(text, type(self).__name__, _last_line(self.output_file), self.output_file)


def serve(writer_class: type[IWriter]) -> None:
    """Calls a writer for each message on stdin, until its end.

    Args:
        writer_class: Made before the first message; has a method for every message.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # of a batch system: the end of stdin ends it
    writer = writer_class()
    stream: IO[bytes] = sys.stdin.buffer
    for line in stream:
        if not line.endswith(b"\n"):
            break  # the training was killed while it wrote
        method, arguments = json.loads(line)
        getattr(writer, method)(**arguments)
    last = threading.Timer(_LONGEST_END_S, os._exit, (1,))  # a server that never answers
    last.daemon = True
    last.start()
    writer.close()
    last.cancel()


def settings_of(folder: Path) -> dict[str, Any]:
    """Returns the options in a run's `config.json`; nothing if there is none.

    Args:
        folder: The run's `log` folder.
    """
    try:
        document = read_json(folder.parent / "config.json")
    except (OSError, ValueError):
        return {}
    config = document.get("config", document) if isinstance(document, dict) else {}
    return config if isinstance(config, dict) else {}


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
