"""TensorBoard event files, written with tensorboardX's messages."""

from __future__ import annotations

import logging
import math
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from dicore.interfaces.logger import LogTarget

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_LOG = logging.getLogger("dicore.tensorboard")
_IMPORTS = threading.Lock()


class TensorBoardLogger:
    """Writes scalars and histograms for `tensorboard --logdir RUN`.

    If writing fails, as on a full disk, new files are tried every `flush_secs`.

    Args:
        axis: X axis of the curves: env steps, updates, or both (as two TensorBoard runs).
        flush_secs: Maximum number of seconds between flushes to disk.
    """

    def __init__(
        self, *, axis: Literal["env_step", "train_iter", "both"] = "env_step", flush_secs: int = 10
    ) -> None:
        self._axis = axis
        self._flush_secs = flush_secs
        self._target: LogTarget | None = None
        self._files: dict[str, _EventFile] = {}
        self._retry_at = -math.inf
        self._warned = False

    def open(self, target: LogTarget) -> None:
        """Stores the target; the first metric creates the event files."""
        with _IMPORTS, _comet_later():
            import tensorboardX.proto.event_pb2  # noqa: F401 - slow: not between two steps

        self._target = target

    def log_scalars(self, scalars: Mapping[str, float], *, env_step: int, train_iter: int) -> None:
        """Writes the scalars as one event per axis."""
        from tensorboardX.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        self._write(Summary(value=values), env_step, train_iter)

    def log_histogram(
        self, tag: str, values: npt.NDArray[np.floating], *, env_step: int, train_iter: int
    ) -> None:
        """Writes a histogram of the finite values, if there are any.

        Args:
            tag: Name of the histogram.
            values: float [...].
            env_step: Env steps collected so far.
            train_iter: Updates made so far.
        """
        import numpy as np
        from tensorboardX.summary import histogram

        finite = values[np.isfinite(values)]
        if finite.size:
            self._write(histogram(tag, finite, "auto"), env_step, train_iter)

    def log_text(self, text: str, *, channel: str = "run") -> None:
        """Ignores texts: the run writes them to files."""

    def flush(self) -> None:
        """Flushes the event files."""
        try:
            for file in self._files.values():
                file.flush()
        except OSError as error:
            self._failed(error)

    def close(self) -> None:
        """Flushes and closes the event files; may be called twice."""
        files, self._files = self._files, {}
        for file in files.values():
            with suppress(OSError):
                file.close()

    def _failed(self, error: OSError) -> None:
        """Drops the files and the events that wait in them; warns once."""
        self.close()
        self._retry_at = time.monotonic() + self._flush_secs
        if not self._warned:
            self._warned = True
            _LOG.warning("events for TensorBoard cannot be written: %s; it is tried again", error)

    def _write(self, summary: Any, env_step: int, train_iter: int) -> None:
        from tensorboardX.proto.event_pb2 import Event

        if time.monotonic() < self._retry_at:
            return
        try:
            if not self._files:
                self._files = self._open_files()
            for axis, file in self._files.items():
                step = env_step if axis == "env_step" else train_iter
                file.add(Event(summary=summary, step=step))
        except OSError as error:
            self._failed(error)

    def _open_files(self) -> dict[str, _EventFile]:
        assert self._target is not None, "open() comes first"
        folder = self._target.folder
        places: dict[str, Path] = {self._axis: folder}
        if self._axis == "both":
            places = {"env_step": folder / "env_step", "train_iter": folder / "train_iter"}
        files = {axis: _EventFile(place, self._flush_secs) for axis, place in places.items()}
        if self._target.resumed_at is not None:
            for axis, step in zip(("env_step", "train_iter"), self._target.resumed_at, strict=True):
                if axis in files:
                    files[axis].add(_restart(step))
        return files


class _EventFile:
    """An event file that is written in the calling thread; made again if it was removed.

    tensorboardX's own event writer passes events to a thread by a bounded queue. If the disk is
    full, the thread dies and the next events block forever.
    """

    def __init__(self, folder: Path, flush_secs: float) -> None:
        self._folder = folder
        self._flush_secs = flush_secs
        self._open()

    def _open(self) -> None:
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.record_writer import RecordWriter

        self._folder.mkdir(parents=True, exist_ok=True)
        self._flushed = -math.inf
        self._path = _new_file(self._folder)
        self._writer = RecordWriter(str(self._path))
        try:
            self.add(Event(file_version="brain.Event:2"))
        except OSError:
            self._path.unlink()
            with suppress(OSError):
                self.close()
            raise

    def add(self, event: Any) -> None:
        event.wall_time = datetime.now().timestamp()
        self._writer.write(event.SerializeToString())
        if time.monotonic() - self._flushed >= self._flush_secs:
            self.flush()

    def flush(self) -> None:
        if not self._path.exists():
            self.close()
            self._open()
        self._flushed = time.monotonic()
        self._writer._writer.flush()  # noqa: SLF001 - its own flush waits for the disk, too

    def close(self) -> None:
        self._writer.close()


def _new_file(folder: Path) -> Path:
    """Makes a new file, with a number if runs of the same second share the folder."""
    name = f"events.out.tfevents.{int(datetime.now().timestamp())}.{socket.gethostname()}"
    for number in count():
        path = folder / (f"{name}.{number}" if number else name)
        with suppress(FileExistsError):
            path.touch(exist_ok=False)
            return path
    raise AssertionError("unreachable")


def _restart(step: int) -> Any:
    """Creates the event that makes TensorBoard discard earlier events after `step`."""
    from tensorboardX.proto.event_pb2 import Event, SessionLog

    return Event(step=step + 1, session_log=SessionLog(status=SessionLog.START))


@contextmanager
def _comet_later() -> Iterator[None]:
    """Lets who imports `comet_ml` within import it when something of it is first used.

    tensorboardX imports it wherever it is installed, which takes a second.
    """
    if "comet_ml" in sys.modules or find_spec("comet_ml") is None:
        yield
        return
    later = ModuleType("comet_ml")
    later.__spec__ = find_spec("comet_ml")

    def attribute(wanted: str) -> object:
        if wanted.startswith("__"):  # looked at with all modules, as `inspect` does
            raise AttributeError("comet_ml is not imported yet")
        if sys.modules.get("comet_ml") is later:  # by another thread
            del sys.modules["comet_ml"]
        return getattr(import_module("comet_ml"), wanted)

    later.__dict__["__getattr__"] = attribute
    sys.modules["comet_ml"] = later
    try:
        yield
    finally:
        if sys.modules.get("comet_ml") is later:
            del sys.modules["comet_ml"]
