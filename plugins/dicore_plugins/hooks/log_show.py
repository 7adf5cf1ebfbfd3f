"""Shows the means of the monitored variables at intervals."""

from __future__ import annotations

from typing import Any, Self

from dicore.interfaces.hook import LearnerHook
from dicore_plugins.hooks.interval import Interval


class LogShowHook(LearnerHook):
    """Logs the means since the last look, against updates and env steps.

    Args:
        name: For people.
        priority: Lower runs first.
        position: When it runs.
        freq: Updates between lines.
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

    @classmethod
    def from_value(cls, value: int, position: str) -> Self | None:
        """Makes the hook of the simple form; the value is the interval."""
        return cls(f"log_show_{position}", position=position, freq=int(value)) if value else None

    def __call__(self, engine: Any) -> None:
        if engine.rank != 0 or not self._interval.due(engine.last_iter):
            return
        engine.monitor = engine.log_buffer.means()
        engine.log_buffer.clear()
        scalars = {f"learner/{name}": value for name, value in engine.monitor.items()}
        if engine.run is not None:
            engine.run.log.log_scalars(
                scalars, env_step=max(engine.envstep, 0), train_iter=engine.last_iter
            )
        elif engine.tb_logger is not None:
            for name, value in scalars.items():
                engine.tb_logger.add_scalar(f"{name}_iter", value, engine.last_iter)
                if engine.envstep >= 0:
                    engine.tb_logger.add_scalar(f"{name}_step", value, engine.envstep)
        engine.logger.debug("update %d: %s", engine.last_iter, engine.monitor)
