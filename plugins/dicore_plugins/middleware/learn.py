"""Learning as a step of training."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

from dicore.interfaces.buffer import SupportsSampleBatches
from dicore.task import OnlineRLContext, middleware

_LOG = logging.getLogger("dicore.learn")


def as_learner(cfg: Any, policy: Any, run: Any | None = None) -> Any:
    """Returns a learner as it is and gives a learn mode the configured one."""
    if hasattr(policy, "register_hook"):
        return policy
    return cfg.policy.learn.learner.build(None, policy=policy, run=run)


def trainer(cfg: Any, policy: Any, *, run: Any | None = None) -> Callable[[OnlineRLContext], None]:
    """Makes one update from what a fetcher drew.

    Args:
        cfg: The whole compiled config.
        policy: A learn mode, or a learner made already.
        run: Takes logs and checkpoints of the hooks; None: nowhere.

    Returns:
        A middleware: train_data -> train_output, train_iter; without data it does nothing.
    """
    learner = as_learner(cfg, policy, run)

    @middleware(
        reads=["train_data", "train_iter"],
        writes=["train_output", "train_iter"],
        optional=["env_step"],
    )
    def train(ctx: OnlineRLContext) -> None:
        if ctx.train_data is None:
            return
        ctx.train_output = learner.train(ctx.train_data, ctx.env_step)
        ctx.train_iter = learner.last_iter

    return train


@middleware(reads=["train_iter", "env_step"], writes=["train_output", "train_iter", "train_data"])
class OffPolicyLearner:
    """Draws and learns `update_per_collect` times per step.

    Args:
        cfg: The whole compiled config; `policy.learn` is used.
        policy: A learn mode, or a learner made already.
        buffer_: An `IBuffer`.
        reward_model: Estimates the reward of each batch before it is learned from.
        run: Takes logs and checkpoints of the hooks; None: nowhere.
    """

    def __init__(
        self,
        cfg: Any,
        policy: Any,
        buffer_: Any,
        reward_model: Any | None = None,
        *,
        run: Any | None = None,
    ) -> None:
        self.learner = as_learner(cfg, policy, run)
        self._buffer = buffer_
        self._reward_model = reward_model
        self._batch_size = cfg.policy.learn.batch_size
        self._updates = cfg.policy.learn.update_per_collect
        self._max_train_iter = cfg.pipeline.max_train_iter
        self._priority = cfg.policy.priority
        self._warned = False

    def __call__(self, ctx: OnlineRLContext) -> None:
        if self._buffer.count() < self._batch_size:
            self._warn()
            return
        learner, outputs = self.learner, []
        for data in self._batches():
            if self._reward_model is not None:
                data = self._reward_model.estimate(data)  # noqa: PLW2901 - the same rows
            outputs += learner.train(data, ctx.env_step)
            if self._priority:
                self._buffer.update(learner.priority_info)
        ctx.train_output = outputs
        ctx.train_iter = learner.last_iter

    def _batches(self) -> Iterator[Any]:
        """Yields what this step learns from; priorities change what the next draw may be."""
        buffer, size, learner = self._buffer, self._batch_size, self.learner
        count = self._updates
        if self._max_train_iter is not None:
            count = min(count, self._max_train_iter - learner.last_iter)
        if not self._priority and isinstance(buffer, SupportsSampleBatches):
            yield from buffer.sample_batches(count, size, learner.last_iter)
            return
        for _ in range(count):
            data = buffer.sample_batch(size, learner.last_iter, reuse=True)
            if not data:
                return
            yield data

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            _LOG.info(
                "no update yet: the buffer holds %d rows, one update takes %d",
                self._buffer.count(),
                self._batch_size,
            )
