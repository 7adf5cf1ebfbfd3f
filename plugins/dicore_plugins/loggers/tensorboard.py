"""Event files for TensorBoard, written by tensorboardX."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from dicore.interfaces.logger import LogTarget

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class TensorBoardLogger:
    """Curves and histograms for `tensorboard --logdir RUN`.

    Args:
        axis: What curves are drawn against: env steps, updates, or both as two TensorBoard runs.
        flush_secs: Longest time in seconds before what was logged is on disk.
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
        self._writers: dict[str, Any] = {}

    def open(self, target: LogTarget) -> None:
        """Remembers the run; event files are made by the first number."""
        self._target = target

    def log_scalars(self, scalars: Mapping[str, float], *, env_step: int, train_iter: int) -> None:
        """Writes the numbers as one event for each axis."""
        from tensorboardX.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in scalars.items()]
        self._write(Summary(value=values), env_step, train_iter)

    def log_histogram(
        self, tag: str, values: npt.NDArray[np.floating], *, env_step: int, train_iter: int
    ) -> None:
        """Writes how finite values are distributed; nothing if there are none.

        Args:
            tag: Name of the quantity.
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
        """Leaves texts to the run's own text files."""

    def flush(self) -> None:
        """Writes what waits to the files."""
        for writer in self._writers.values():
            writer.flush()

    def close(self) -> None:
        """Writes the rest and closes the files; harmless when repeated."""
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _write(self, summary: Any, env_step: int, train_iter: int) -> None:
        if not self._writers:
            self._writers = self._open_files()
        for axis, writer in self._writers.items():
            writer.add_summary(summary, env_step if axis == "env_step" else train_iter)

    def _open_files(self) -> dict[str, Any]:
        from tensorboardX import FileWriter

        assert self._target is not None, "open() comes first"
        folder = self._target.folder
        places = {self._axis: folder}
        if self._axis == "both":
            places = {"env_step": folder / "env_step", "train_iter": folder / "train_iter"}
        writers = {
            axis: FileWriter(str(place), flush_secs=self._flush_secs)
            for axis, place in places.items()
        }
        if self._target.resumed_at is not None:
            for axis, step in zip(("env_step", "train_iter"), self._target.resumed_at, strict=True):
                if axis in writers:
                    writers[axis].add_event(_restart(step))
        return writers


def _restart(step: int) -> Any:
    """Makes the event by which TensorBoard leaves out what was logged after `step` before."""
    from tensorboardX.proto.event_pb2 import Event, SessionLog

    return Event(step=step + 1, session_log=SessionLog(status=SessionLog.START))
