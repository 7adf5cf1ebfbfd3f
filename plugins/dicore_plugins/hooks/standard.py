"""The hooks that learners have by default: they load and save checkpoints, and log metrics."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from dicore.console import plain_table
from dicore.data import Tree
from dicore.errors import HookError
from dicore.interfaces.hook import LearnerHook
from dicore.run.checkpoint_store import read_state
from dicore_plugins.hooks.hook_config import Interval
from dicore_plugins.policies.base import mode_attribute

if TYPE_CHECKING:
    from dicore_plugins.learners.base.learner import BaseLearner

TABLE_EVERY_S = 1.0
"""Shortest time between tables: writing one takes as long as an update of a small network."""
Unit = Literal["iter", "env_step", "second"]


class LoadCkptHook(LearnerHook):
    """Loads policy and counters from a checkpoint before training.

    If `load_path` is empty, the hook has no effect. A resumed run restores its own state instead.

    Args:
        name: Name in logs and messages.
        priority: Hooks with lower values run first.
        position: When the hook runs: `before_run`, `before_iter`, `after_iter` or `after_run`.
        load_path: Checkpoint folder, read when the hook runs.
    """

    def __init__(
        self,
        name: str = "load_ckpt",
        *,
        priority: int = 20,
        position: str = "before_run",
        load_path: str = "",
    ) -> None:
        super().__init__(name, position=position, priority=priority)
        self.load_path = load_path
        self._resumed = False

    @classmethod
    def from_value(cls, value: str, position: str) -> Self | None:
        """Creates the hook from the simple form; the value is the path.

        Raises:
            TypeError: the value is not a path.
        """
        if value and not isinstance(value, str):
            raise TypeError("expected the path of a checkpoint")
        return cls(position=position, load_path=value) if value else None

    def resume(self, engine: BaseLearner) -> None:
        """Loads nothing later: the learner has been restored."""
        self._resumed = True

    def __call__(self, engine: BaseLearner) -> None:
        """Loads the checkpoint into the learner.

        Raises:
            CheckpointError: the path is not a valid checkpoint.
        """
        if self.load_path and not self._resumed:
            engine.load_state_dict(read_state(Path(self.load_path))["learner"])
            engine.logger.info("loaded %s at update %d", self.load_path, engine.last_iter)


class SaveCkptHook(LearnerHook):
    """Saves checkpoint `iteration_N` every `freq` updates, env steps or seconds, or after the run.

    Args:
        name: Name in logs and messages.
        priority: Hooks with lower values run first.
        position: When the hook runs: `before_run`, `before_iter`, `after_iter` or `after_run`.
        freq: Updates, env steps or seconds between checkpoints, at `before_iter` and `after_iter`.
        unit: Unit of `freq`: gradient updates, env steps or seconds.

    Raises:
        HookError: the interval is not positive, or the unit is unknown.
    """

    def __init__(
        self,
        name: str = "save_ckpt",
        *,
        priority: int = 20,
        position: str = "after_iter",
        freq: int = 10_000,
        unit: Unit = "iter",
    ) -> None:
        super().__init__(name, position=position, priority=priority)
        whole = isinstance(freq, int) and not isinstance(freq, bool)
        if not whole or freq < 1 or unit not in ("iter", "env_step", "second"):
            raise HookError(
                f"save_ckpt: {freq!r} with unit {unit!r} is not an interval",
                hint="set freq to an int >= 1 and unit to iter, env_step or second",
            )
        self._interval = Interval(freq) if position.endswith("iter") else None
        self._unit = unit
        self._began = time.monotonic()

    @classmethod
    def from_value(cls, value: object, position: str) -> Self | None:
        """Creates the hook from the simple form.

        Args:
            value: Updates between checkpoints; True for the default interval or False for no hook;
                or `{"freq": 300, "unit": "second"}`.
            position: When the hook runs.

        Raises:
            HookError: the value is none of these.
        """
        if not value:
            return None
        options = value if isinstance(value, Mapping) else {} if value is True else {"freq": value}
        if not {"freq", "unit"} >= set(options):
            raise HookError(
                f"save_ckpt_{position}: {value!r} is not an interval",
                hint="write {'freq': …, 'unit': …}",
            )
        return cls(f"save_ckpt_{position}", position=position, **options)

    def resume(self, engine: BaseLearner) -> None:
        """Continues from the learner's counters."""
        if self._interval is not None and self._unit != "second":
            self._interval.pass_over(max(self._count(engine), 0))

    def _count(self, engine: BaseLearner) -> int:
        if self._unit == "iter":
            return int(engine.last_iter)
        return int(engine.envstep if self._unit == "env_step" else time.monotonic() - self._began)

    def __call__(self, engine: BaseLearner) -> None:
        if engine.rank == 0 and (
            self._interval is None or self._interval.due(max(self._count(engine), 0))
        ):
            engine.save_checkpoint()


class LogShowHook(LearnerHook):
    """Logs metrics averaged since the previous log line.

    The values are passed to the loggers and appended to `log/learner/learner.txt`, as a table at
    most once a second. If there are several learners, only the first one logs.

    Args:
        name: Name in logs and messages.
        priority: Hooks with lower values run first.
        position: When the hook runs: `before_run`, `before_iter`, `after_iter` or `after_run`.
        freq: Updates between log lines.
    """

    def __init__(
        self,
        name: str = "log_show",
        *,
        priority: int = 20,
        position: str = "after_iter",
        freq: int = 100,
    ) -> None:
        super().__init__(name, position=position, priority=priority)
        self._interval = Interval(freq)
        self._lines: list[list[str]] = []
        self._table_time = float("-inf")

    @classmethod
    def from_value(cls, value: int, position: str) -> Self | None:
        """Creates the hook from the simple form; the value is the interval."""
        return cls(f"log_show_{position}", position=position, freq=int(value)) if value else None

    def resume(self, engine: BaseLearner) -> None:
        """Continues from the learner's counter."""
        self._interval.pass_over(engine.last_iter)

    def shows(self, train_iter: int) -> bool:
        """Returns whether the next call logs."""
        return self._interval.will_be_due(train_iter)

    def __call__(self, engine: BaseLearner) -> None:
        """Logs when due."""
        if not self._interval.due(engine.last_iter):
            return
        engine.monitor, histograms = engine.log_buffer.means(), engine.log_buffer.histograms
        engine.log_buffer.clear()
        skipped = int(mode_attribute(engine.policy, "skipped_updates", 0))
        if skipped:
            engine.monitor["skipped_updates"] = float(skipped)
        if engine.rank == 0:
            self._show(engine, histograms)

    def _show(self, engine: BaseLearner, histograms: Mapping[str, Tree]) -> None:
        scalars = {f"learner/{name}": value for name, value in engine.monitor.items()}
        if engine.run is not None:
            when = {"env_step": max(engine.envstep, 0), "train_iter": engine.last_iter}
            engine.run.log.log_scalars(scalars, **when)
            for name, values in histograms.items():
                engine.run.log.log_histogram(f"learner/{name}", values, **when)
            self._tabulate(engine)
        elif engine.tb_logger is not None:
            for name, value in scalars.items():
                engine.tb_logger.add_scalar(f"{name}_iter", value, engine.last_iter)
                if engine.envstep >= 0:
                    engine.tb_logger.add_scalar(f"{name}_step", value, engine.envstep)
            for name, values in histograms.items():
                engine.tb_logger.add_histogram(f"learner/{name}_iter", values, engine.last_iter)
        engine.logger.debug("update %d: %s", engine.last_iter, engine.monitor)

    def _tabulate(self, engine: BaseLearner) -> None:
        """Adds a line to the table; writes the table once a second."""
        header = ["update", "env step", *engine.monitor]
        if self._lines and self._lines[0] != header:
            self._write_table(engine)
        means = (f"{value:.6g}" for value in engine.monitor.values())
        line = [str(engine.last_iter), str(max(engine.envstep, 0)), *means]
        self._lines += [line] if self._lines else [header, line]
        if time.monotonic() - self._table_time >= TABLE_EVERY_S:
            self._write_table(engine)

    def _write_table(self, engine: Any) -> None:
        header, *lines = self._lines
        text = plain_table(header, lines, range(len(header)))
        engine.run.log.log_text(f"means since the previous line\n{text}", channel="learner")
        self._lines.clear()
        self._table_time = time.monotonic()
