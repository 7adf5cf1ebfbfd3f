"""Logs in async mode: from several threads, and how far collecting is behind learning."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import TYPE_CHECKING, Any

from dicore.task import OnlineRLContext, Task

if TYPE_CHECKING:
    from dicore.run.log import LogHub

__all__ = ["lag_logger", "log_from_threads"]


def log_from_threads(log: LogHub) -> None:
    """Lets several threads call a log, one at a time.

    Args:
        log: See `LogHub`.
    """
    lock = threading.RLock()
    names = "log_scalars", "log_histogram", "log_progress", "log_text"
    for name in (*names, "state_dict", "flush", "close"):
        setattr(log, name, _locked(getattr(log, name), lock))


def _locked(fn: Callable[..., Any], lock: AbstractContextManager[object]) -> Callable[..., Any]:
    @wraps(fn)
    def call(*args: object, **kwargs: object) -> Any:
        with lock:
            return fn(*args, **kwargs)

    return call


class lag_logger:  # noqa: N801 - named like other middleware
    """Logs how far what is read in async mode is behind: `async/lag/train_iter` in updates, ….

    In a task without async mode it logs nothing.

    Args:
        log: Has `log_scalars(scalars, env_step=…, train_iter=…)`, such as a run's `log`.
        every: Steps between two lines.
    """

    reads = ("env_step", "train_iter")
    uses = ()

    def __init__(self, log: LogHub, every: int = 100) -> None:
        self._log = log
        self._every = every
        self._executor: Any = None

    def join_task(self, task: Task) -> None:
        """Takes the executor of the task."""
        self._executor = task.executor

    def __call__(self, ctx: OnlineRLContext) -> None:
        if self._executor is None or ctx.total_step % self._every:
            return
        lags = {f"async/lag/{name}": lag for name, lag in self._executor.lags.items()}
        lags["async/lag/steps"] = self._executor.max_lag
        self._log.log_scalars(lags, env_step=ctx.env_step, train_iter=ctx.train_iter)
