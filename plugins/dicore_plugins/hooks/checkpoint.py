"""Hooks that load a checkpoint before a run and save checkpoints during it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from dicore.errors import HookError
from dicore.interfaces.hook import LearnerHook
from dicore.run.checkpoint_store import read_state
from dicore_plugins.hooks.hook_config import Interval

if TYPE_CHECKING:
    from dicore_plugins.learners.base.learner import BaseLearner


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
