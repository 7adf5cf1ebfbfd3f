"""Logs metrics at intervals; ends a training whose loss or gradient stays non-finite."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from dicore.console import plain_table
from dicore.data import Batch, tree_map
from dicore.errors import DicoreError, NonFiniteError
from dicore.interfaces.hook import LearnerHook
from dicore.run.checkpoint_store import write_state
from dicore_plugins.hooks.hook_config import Interval
from dicore_plugins.policies.base import mode_attribute

TOLERATED = 2
"""Consecutive updates that may be skipped because the loss was not finite."""
TABLE_EVERY_S = 1.0
"""Shortest time between tables: writing one takes as long as an update of a small network."""
_NONE = np.empty(0)
_COUNTS = ("in_a_row", "skipped", "skipped_in_a_row", "seen")


def _save_batch(engine: Any) -> str | None:
    """Saves the learner's last batch to the run folder, for inspection; returns its path."""
    data = getattr(engine, "latest_data", None)
    if engine.run is None or not isinstance(data, Batch):
        return None
    path = engine.run.folder.log / f"nonfinite_batch_{engine.last_iter}"
    try:
        write_state(path, tree_map(np.asarray, dict(data.items())))
    except (OSError, DicoreError) as error:
        engine.logger.warning("cannot save the non-finite batch: %s", error)
        return None
    return str(path)


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
        self._in_a_row = 0
        self._skipped = self._skipped_in_a_row = self._seen = 0
        self._lines: list[list[str]] = []
        self._table_time = float("-inf")

    @classmethod
    def from_value(cls, value: int, position: str) -> Self | None:
        """Creates the hook from the simple form; the value is the interval."""
        return cls(f"log_show_{position}", position=position, freq=int(value)) if value else None

    def resume(self, engine: Any) -> None:
        """Continues from the learner's counter."""
        self._interval.pass_over(engine.last_iter)
        self._seen = engine.last_iter
        self._skipped = int(mode_attribute(engine.policy, "skipped_updates", 0))

    def state_dict(self) -> dict[str, int]:
        """Returns the counters of non-finite and skipped updates."""
        return {name: getattr(self, f"_{name}") for name in _COUNTS}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Restores what `state_dict` returned."""
        for name in _COUNTS:
            setattr(self, f"_{name}", int(state.get(name, 0)))

    def __call__(self, engine: Any) -> None:
        """Logs when due.

        Raises:
            NonFiniteError: three consecutive updates had a non-finite loss, or all since the last
                line (three or more) a non-finite gradient; the policy skipped them.
        """
        if not self._interval.due(engine.last_iter):
            return
        columns, histograms = engine.log_buffer.columns(), engine.log_buffer.histograms
        engine.monitor = engine.log_buffer.means(columns)
        engine.log_buffer.clear()
        self._check_losses(columns.get("total_loss", _NONE), engine)
        self._check_skipped(engine)
        if engine.rank == 0:
            self._show(engine, histograms)

    def _show(self, engine: Any, histograms: Mapping[str, Any]) -> None:
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

    def _tabulate(self, engine: Any) -> None:
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

    def _check_losses(self, losses: Any, engine: Any) -> None:
        """Counts consecutive non-finite losses, across log lines too."""
        for bad in ~np.isfinite(losses):
            self._in_a_row = self._in_a_row + 1 if bad else 0
            if self._in_a_row > TOLERATED:
                raise _non_finite(
                    engine, f"the loss of {self._in_a_row} consecutive updates", losses
                )

    def _check_skipped(self, engine: Any) -> None:
        """Reports updates that the policy skipped; the gradient of a finite loss may be infinite.

        Raises:
            NonFiniteError: all updates since the last line were skipped, three or more in a row.
        """
        skipped = int(mode_attribute(engine.policy, "skipped_updates", 0))
        fresh, made = skipped - self._skipped, engine.last_iter - self._seen
        if skipped:
            engine.monitor["skipped_updates"] = float(skipped)
        if fresh > 0 and self._skipped == 0:
            engine.logger.warning(
                "update %d: skipped %d updates with a non-finite loss or gradient; see the metric"
                " learner/skipped_updates for further ones",
                engine.last_iter,
                fresh,
            )
        self._skipped_in_a_row = self._skipped_in_a_row + made if fresh >= made > 0 else 0
        self._skipped, self._seen = skipped, engine.last_iter
        if self._skipped_in_a_row > TOLERATED:
            raise _non_finite(
                engine, f"the gradient of {self._skipped_in_a_row} consecutive updates"
            )


def _non_finite(engine: Any, what: str, losses: Any = None) -> NonFiniteError:
    """Creates the error that ends a training; saves the last batch if it is non-finite."""
    last_is_bad = losses is None or not np.isfinite(losses[-1])
    batch = _save_batch(engine) if last_is_bad else None
    where = f"; the last batch is in {batch}" if batch else ""
    return NonFiniteError(
        f"learner: {what} is not finite (at update {engine.last_iter}); the updates were"
        " skipped and the parameters are unchanged",
        hint=f"lower learning_rate, set max_grad_norm, and check the rewards{where}",
        context={"train_iter": engine.last_iter, "batch": batch},
    )
