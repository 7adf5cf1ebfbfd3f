"""TensorBoard event files, written with tensorboardX's messages."""

from __future__ import annotations

import math
import socket
import struct
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from itertools import count
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

from dicore.interfaces.logger import LogTarget

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    import numpy.typing as npt


class TensorBoardLogger:
    """Writes scalars and histograms for `tensorboard --logdir RUN`.

    Args:
        axis: X axis of the curves: env steps, updates, or both (as two TensorBoard runs).
        flush_secs: Maximum number of seconds between flushes to disk.
    """

    def __init__(
        self,
        *,
        axis: Literal["env_step", "train_iter", "both"] = "env_step",
        flush_secs: int = 10,
    ) -> None:
        self._axis = axis
        self._flush_secs = flush_secs
        self._target: LogTarget | None = None
        self._files: dict[str, _EventFile] = {}

    def open(self, target: LogTarget) -> None:
        """Stores the target; the first metric creates the event files."""
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
        for file in self._files.values():
            file.flush()

    def close(self) -> None:
        """Flushes and closes the event files; may be called twice."""
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _write(self, summary: Any, env_step: int, train_iter: int) -> None:
        from tensorboardX.proto.event_pb2 import Event

        if not self._files:
            self._files = self._open_files()
        for axis, file in self._files.items():
            step = env_step if axis == "env_step" else train_iter
            file.add(Event(summary=summary, step=step))

    def _open_files(self) -> dict[str, _EventFile]:
        assert self._target is not None, "open() comes first"
        folder = self._target.folder
        places = {self._axis: folder}
        if self._axis == "both":
            places = {"env_step": folder / "env_step", "train_iter": folder / "train_iter"}
        files = {axis: _EventFile(place, self._flush_secs) for axis, place in places.items()}
        if self._target.resumed_at is not None:
            for axis, step in zip(("env_step", "train_iter"), self._target.resumed_at, strict=True):
                if axis in files:
                    files[axis].add(_restart(step))
        return files


class _EventFile:
    """An event file that is written in the calling thread.

    tensorboardX's own writer passes events to a thread by a bounded queue. If the disk is full, the
    thread dies and the next events block forever.
    """

    def __init__(self, folder: Path, flush_secs: float) -> None:
        from tensorboardX.proto.event_pb2 import Event

        folder.mkdir(parents=True, exist_ok=True)
        self._flush_secs = flush_secs
        self._flushed = -math.inf
        self._file = _new_file(folder)
        self.add(Event(file_version="brain.Event:2"))

    def add(self, event: Any) -> None:
        from tensorboardX.record_writer import masked_crc32c

        event.wall_time = datetime.now().timestamp()
        data = event.SerializeToString()
        head = struct.pack("<Q", len(data))
        sums = [struct.pack("<I", masked_crc32c(part)) for part in (head, data)]
        self._file.write(head + sums[0] + data + sums[1])
        if time.monotonic() - self._flushed >= self._flush_secs:
            self.flush()

    def flush(self) -> None:
        self._flushed = time.monotonic()
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _new_file(folder: Path) -> BinaryIO:
    """Opens a new file, with a number if runs of the same second share the folder."""
    name = f"events.out.tfevents.{int(datetime.now().timestamp())}.{socket.gethostname()}"
    for number in count():
        with suppress(FileExistsError):
            return (folder / (f"{name}.{number}" if number else name)).open("xb")
    raise AssertionError("unreachable")


def _restart(step: int) -> Any:
    """Creates the event that makes TensorBoard discard earlier events after `step`."""
    from tensorboardX.proto.event_pb2 import Event, SessionLog

    return Event(step=step + 1, session_log=SessionLog(status=SessionLog.START))
