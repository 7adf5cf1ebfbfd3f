"""The contract of loggers (`ILogger`): they receive the metrics and texts of a run."""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path
from typing import Any

from dicore.interfaces.logger import ILogger, LogTarget
from dicore.testing.suite import Suite, expect, expect_members, folder

__all__ = ["LoggerContract"]


class LoggerContract(Suite):
    """Conformance suite of loggers: subclass it and override `make`."""

    grace = 2.0
    """Time limit in seconds for threads to end after `close`."""

    patience = 120.0
    """Value of `close_s` of loggers that wait so long at their end."""

    def make(self) -> Any:
        """Returns a logger (`ILogger`) that was not opened."""
        logger = self.registered.build()
        if hasattr(logger, "close_s"):  # a time limit: the machine may be slow
            logger.close_s = self.patience
        return logger

    def test_has_the_methods(self) -> None:
        """It satisfies `ILogger`."""
        expect_members(self.make(), ILogger)

    def test_logs_a_whole_run(self) -> None:
        """Its methods return None; it changes no metrics, and writes to the log folder only.

        Metrics may be NaN or infinite, and there may be none.
        """
        strange = {"learner/loss": math.nan, "evaluator/return_mean": math.inf, "x": -math.inf}
        scalars = {"learner/loss": 1.0, "b": 2.0}
        with folder() as place:
            logger = self.make()
            (place / "log").mkdir()
            told = [logger.open(_target(place / "log")), *_tell(logger)]
            told += [
                logger.log_scalars(each, env_step=17, train_iter=7)
                for each in (strange, scalars, {})
            ]
            told += [logger.flush(), logger.close()]
            others = [each.name for each in place.iterdir() if each.name != "log"]
        expect(told == [None] * len(told), f"its methods must return None, they returned {told}")
        expect(scalars == {"learner/loss": 1.0, "b": 2.0}, f"it changed the dict: {scalars}")
        expect(not others, f"it wrote outside its folder: {others}")

    def test_accepts_a_run_without_entries(self) -> None:
        """It can be opened and closed without any entry."""
        with folder() as place:
            logger = self.make()
            logger.open(_target(place))
            logger.flush()
            logger.close()

    def test_close_ends_it(self) -> None:
        """Its threads end after `close`, which can be repeated, and called without `open`."""
        with folder() as place:
            before = set(threading.enumerate())
            logger = self.make()
            logger.open(_target(place))
            _tell(logger)
            logger.close()
            logger.close()
            deadline = time.monotonic() + self.grace
            while (left := set(threading.enumerate()) - before) and time.monotonic() < deadline:
                time.sleep(0.01)  # a writer thread may need a moment to end
        expect(not left, f"threads left after close: {[each.name for each in left]}")
        self.make().close()


def _target(place: Path) -> LogTarget:
    return LogTarget(place, title="a run", max_env_step=1000, stop_value=475.0)


def _tell(logger: Any) -> list[Any]:
    return [
        logger.log_scalars({"learner/total_loss": 0.5}, env_step=8, train_iter=3),
        logger.log_scalars({"evaluator/return_mean": 21.0}, env_step=8, train_iter=3),
        logger.log_text("a line for people"),
        logger.log_text("one of a part", channel="learner"),
        logger.log_scalars({"learner/total_loss": 0.4}, env_step=16, train_iter=6),
    ]
