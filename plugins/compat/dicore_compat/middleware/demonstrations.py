"""Middleware for demonstrations in tasks with a collector of its own for the expert."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.data import Batch
from dicore.errors import UsageError
from dicore.task import OnlineRLContext, middleware
from dicore_plugins.middleware.learn import data_pusher

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IBuffer

__all__ = ["sqil_data_pusher"]


def sqil_data_pusher(
    cfg: Any, buffer_: IBuffer, expert: bool = False
) -> Callable[[OnlineRLContext], None]:
    """Pushes collected single steps with the rewards of SQIL: 1 of an expert, else 0.

    For tasks with a collector of its own for the expert (DI-engine); of any rewards of the
    environment. Policies such as `sqil` do this themselves.

    Args:
        cfg: The whole compiled config.
        buffer_: Replay buffer (`IBuffer`).
        expert: The steps are those of an expert.

    Returns:
        A middleware that pushes `ctx.trajectories` and sets it to None.

    Raises:
        UsageError: when it is run: samples bridge several steps.
    """
    push, reward = data_pusher(cfg, buffer_), float(expert)

    @middleware(either=["trajectories"], optional=["trajectories", "env_step"])
    def push_with_reward(ctx: OnlineRLContext) -> None:
        data = ctx.trajectories
        if data is None:
            return
        if len(data) and "value_gamma" in (data if isinstance(data, Batch) else data[0]):
            raise UsageError(
                "sqil_data_pusher sets the rewards of single steps; these samples bridge several",
                hint="set policy.nstep=1",
            )
        if isinstance(data, Batch):
            columns = dict(data.columns)
            columns["reward"] = np.full_like(columns["reward"], reward)
            changed: Any = Batch(columns, len(data), data.schema)
        else:
            changed = [
                {**row, "reward": np.full_like(np.asarray(row["reward"]), reward)} for row in data
            ]
        push(OnlineRLContext(trajectories=changed, env_step=ctx.env_step))
        ctx.trajectories = None

    return push_with_reward
