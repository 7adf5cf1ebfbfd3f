"""Middleware of model-based training: a world model learns, and simulates samples.

Shapes: B rollouts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dicore.data import Batch, Columns, EnvBatch, Tree, tree_map, tree_row
from dicore.data.tree import tree_len
from dicore.errors import UsageError
from dicore.run.random import stream
from dicore.task import OnlineRLContext, middleware

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IBuffer
    from dicore.interfaces.policy import CollectMode
    from dicore.interfaces.world_model import IWorldModel
    from dicore.run import Run


__all__ = ["WorldModelLearner"]


@middleware(reads=["env_step"], optional=["train_iter"])
class WorldModelLearner:
    """Trains a world model when it is due, and pushes samples of short rollouts in it to a buffer.

    Janner et al. 2019, arXiv:1906.08253, algorithm 2: rollouts branch from collected states, and
    the present policy acts in them, with exploration. A rollout ends at a predicted termination, or
    where a prediction is not finite.

    Args:
        cfg: The whole compiled config; `policy.other` has `rollout_batch_size` and `rollout_length`
            (with `rollout_length_end` and `rollout_length_anneal`). It begins when the buffer has
            `policy.learn.batch_size` samples.
        policy: Collect mode of the policy.
        world_model: See `IWorldModel`.
        buffer_: Buffer of the collected samples, with the method `samples`.
        model_buffer: Buffer of the simulated samples.
        run: Run that logs the metrics; None: no log.

    Raises:
        UsageError: the buffer cannot return all samples.
    """

    def __init__(
        self,
        cfg: Any,
        policy: CollectMode,
        world_model: IWorldModel,
        buffer_: IBuffer,
        model_buffer: IBuffer,
        *,
        run: Run | None = None,
    ) -> None:
        if not hasattr(buffer_, "samples"):
            raise UsageError(
                f"{type(buffer_).__name__} has no method samples, which world models train from",
                hint="set policy.other.replay_buffer=naive",
            )
        self._cfg, self._least = cfg.policy.other, cfg.policy.learn.batch_size
        self._policy, self._model, self._run = policy, world_model, run
        self._buffer, self._model_buffer = buffer_, model_buffer
        self._rng = stream("world_model/rollouts")

    def __call__(self, ctx: OnlineRLContext) -> None:
        due = self._buffer.count() >= self._least and self._model.should_train(ctx.env_step)
        if not due:
            return
        collected = self._buffer.samples()
        metrics = dict(self._model.train(collected))
        metrics["rollout_length"] = length = self.rollout_length(ctx.env_step)
        count = 0
        for samples in self._rollouts(collected, length):
            count += len(samples)
            self._model_buffer.push(samples)
        metrics["simulated"] = count
        if self._run is not None:
            scalars = {f"world_model/{key}": float(value) for key, value in metrics.items()}
            self._run.log.log_scalars(scalars, env_step=ctx.env_step, train_iter=ctx.train_iter)

    def rollout_length(self, env_step: int) -> int:
        """Returns the steps of a rollout: it grows linearly with the env steps."""
        cfg = self._cfg
        if cfg.rollout_length_end is None:
            return int(cfg.rollout_length)
        begin, end = cfg.rollout_length_anneal
        share = min(max((env_step - begin) / max(end - begin, 1), 0.0), 1.0)
        return int(cfg.rollout_length + share * (cfg.rollout_length_end - cfg.rollout_length))

    def _rollouts(self, collected: Batch, length: int) -> Iterator[Batch]:
        """Yields the samples of each step of all rollouts."""
        chosen = self._rng.integers(0, len(collected), self._cfg.rollout_batch_size)
        start: Columns = tree_map(np.asarray, tree_row(collected.columns, chosen))
        obs, more = start["obs"], {key: start[key] for key in start if key not in _SIMULATED}
        for _ in range(length):
            batch = EnvBatch(np.arange(tree_len(obs)), obs)
            action = EnvBatch.of(self._policy.forward(batch)).value["action"]
            after, reward, done = self._model.step(obs, action)
            columns = {
                **more,
                "obs": obs,
                "action": action,
                "reward": np.asarray(reward, np.float32),
                "next_obs": after,
                "done": np.asarray(done),
            }
            good = _finite(after) & np.isfinite(columns["reward"])
            rows = np.flatnonzero(good)
            yield Batch(tree_row(columns, rows), len(rows))
            going = np.flatnonzero(good & ~np.asarray(done, np.bool_))
            if not len(going):
                return
            obs, more = tree_row(after, going), tree_row(more, going)


_SIMULATED = ("obs", "action", "reward", "next_obs", "done")


def _finite(obs: Tree) -> npt.NDArray[np.bool_]:
    """Returns which rows have finite numbers only: bool [B]."""
    found: list[npt.NDArray[np.bool_]] = []
    tree_map(lambda leaf: found.append(np.isfinite(leaf.reshape(len(leaf), -1)).all(1)), obs)
    finite: npt.NDArray[np.bool_] = np.logical_and.reduce(found)
    return finite
