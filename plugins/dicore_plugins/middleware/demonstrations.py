"""Middleware that learns from demonstrations: filling their buffer, learning from it first."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dicore.config.sections import RunConfig
from dicore.data import Batch
from dicore.errors import UsageError
from dicore.interfaces.buffer import IBuffer, Refused
from dicore.interfaces.policy import LearnMode
from dicore.task import OnlineRLContext, middleware
from dicore_plugins.middleware.learn import as_learner, data_pusher

if TYPE_CHECKING:
    from dicore.interfaces.learner import ILearner
    from dicore.run import Run


__all__ = ["demo_loader", "pretrainer"]

_LOG = logging.getLogger("dicore.data")


def demo_loader(
    cfg: RunConfig, buffer_: IBuffer, samples: Callable[[], Batch]
) -> Callable[[OnlineRLContext], None]:
    """Pushes demonstrations to their buffer in the first step.

    A buffer that has samples, such as that of a run that is resumed, is left as it is. Fewer
    demonstrations than a batch are pushed several times.

    Args:
        cfg: The whole compiled config.
        buffer_: Buffer of demonstrations.
        samples: Returns them; called if they are needed.

    Returns:
        A middleware that is run before learning.

    Raises:
        UsageError: when it is run: there are no samples, or more than the buffer's capacity.
    """
    push, least = data_pusher(cfg, buffer_), cfg.policy.learn.batch_size

    @middleware(optional=["env_step"])
    def load(ctx: OnlineRLContext) -> None:
        if buffer_.count():
            return
        data = samples()
        if not len(data):
            raise UsageError(
                "the demonstrations are shorter than a sample",
                hint="show more episodes, or lower policy.collect.unroll_len and burn_in",
            )
        room = int(buffer_.replay_buffer_size)
        if len(data) > room:
            raise UsageError(
                f"{len(data)} demonstrations do not fit in their buffer of {room} samples",
                hint="set policy.other.replay_buffer.demo.replay_buffer_size, or use fewer:"
                " pipeline.dataset.episodes",
            )
        _LOG.info("learning from %d demonstrations", len(data))
        times = max(1, min(-(-least // len(data)), room // len(data)))
        for _ in range(times):
            push(OnlineRLContext(trajectories=data))

    return load


def pretrainer(
    cfg: RunConfig, policy: LearnMode | ILearner, buffer_: IBuffer, *, run: Run | None = None
) -> Callable[[OnlineRLContext], None]:
    """Learns from demonstrations alone until `policy.learn.pretrain` updates are made.

    A signal ends it between two updates; a run that is resumed makes the rest of them.

    Args:
        cfg: The whole compiled config; `policy.learn` is used.
        policy: Learn mode of the policy, or a learner.
        buffer_: Buffer of demonstrations.
        run: Run for the hooks' logs and checkpoints, whose stop flag is obeyed; None: no run.

    Returns:
        A middleware: train_iter -> train_iter.
    """
    learner, size = as_learner(cfg, policy, run), cfg.policy.learn.batch_size
    updates = min(cfg.policy.learn.get("pretrain", 0), cfg.pipeline.max_train_iter or np.inf)

    @middleware(reads=["train_iter"], writes=["train_iter"], optional=["env_step"])
    def pretrain(ctx: OnlineRLContext) -> None:
        while learner.train_iter < updates and not (run is not None and run.stop_requested):
            few = buffer_.count() < size
            data = buffer_.sample_batch(size, learner.train_iter, replace=few, reuse=True)
            if isinstance(data, Refused):
                raise UsageError(f"the demonstrations cannot be drawn: {data.reason}")
            learner.train(data, ctx.env_step)
            if cfg.policy.priority:
                buffer_.update(learner.priority_info)
        ctx.train_iter = learner.train_iter

    return pretrain
