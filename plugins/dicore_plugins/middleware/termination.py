"""The end of a training by budget or by request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dicore.task import OnlineRLContext, middleware, task


def termination_checker(
    max_env_step: int | None = None, max_train_iter: int | None = None, *, run: Any | None = None
) -> Callable[[OnlineRLContext], None]:
    """Finishes the task when a budget is spent or the run was asked to stop.

    Args:
        max_env_step: Most env steps; None: no limit.
        max_train_iter: Most updates; None: no limit.
        run: The run whose stop flag (set by signals) counts too.

    Returns:
        A middleware: env_step, train_iter -> the task's `finish`.
    """
    env_steps = float("inf") if max_env_step is None else max_env_step
    updates = float("inf") if max_train_iter is None else max_train_iter

    @middleware(reads=["env_step", "train_iter"])
    def check(ctx: OnlineRLContext) -> None:
        if (
            ctx.env_step >= env_steps
            or ctx.train_iter >= updates
            or (run is not None and run.stop_requested)
        ):
            task.finish = True

    return check
