"""The running standard deviation of discounted returns, to normalise rewards.

As in VecNormalize of Stable-Baselines (Raffin et al. 2021): rewards are divided by the standard
deviation of R_t = r_t + gamma R_{t-1}, which begins at 0 in each episode; their mean stays.

Shapes: B rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from dicore.config.compiler import as_config
from dicore.data import Batch, State, StateDict
from dicore.data.tree import is_tensor
from dicore.errors import UsageError
from dicore_plugins.models.running_norm import RunningNorm
from dicore_plugins.reward_models.config import RewardNormConfig

__all__ = ["ReturnScale", "RewardNorm", "by_step", "origin_of"]

Array = npt.NDArray[Any]


class ReturnScale:
    """Running standard deviation of the discounted returns of all environments.

    Args:
        discount: gamma.
        epsilon: Added to the variance.

    Attributes:
        known: Whether there were rewards.
        value: The standard deviation; 1 before the first rewards.
    """

    def __init__(self, discount: float, epsilon: float = 1e-8) -> None:
        self._discount, self._epsilon = discount, epsilon
        self._norm = RunningNorm(1)
        self._running: dict[int, float] = {}
        self._read()

    def _read(self) -> None:
        self.known = bool(self._norm.count > 0)
        self.value = math.sqrt(float(self._norm.var) + self._epsilon) if self.known else 1.0

    def update(self, reward: Array, env_id: Array | None = None, end: Array | None = None) -> None:
        """Adds rewards.

        Args:
            reward: float [B]; those of each environment in time order.
            env_id: int [B]; None: all are of one environment.
            end: bool [B]; whether the step ends its episode; None: none does.
        """
        if not len(reward):
            return
        envs = np.zeros(len(reward), np.int64) if env_id is None else np.asarray(env_id)
        ends = np.zeros(len(reward), np.bool_) if end is None else np.asarray(end, np.bool_)
        ids, column = np.unique(envs, return_inverse=True)
        running = np.array([self._running.get(env, 0.0) for env in ids.tolist()])
        returns = np.empty(len(reward))
        for rows in by_step(column):
            at = column[rows]
            returns[rows] = running[at] = running[at] * self._discount + reward[rows]
            running[at[ends[rows]]] = 0.0
        self._running.update(zip(ids.tolist(), running.tolist(), strict=True))
        self._norm.update(torch.from_numpy(returns[:, None]))
        self._read()

    def state_dict(self) -> StateDict:
        """Returns the statistics and the returns of the running episodes."""
        return {
            "norm": {key: each.clone() for key, each in self._norm.state_dict().items()},
            "env_id": np.array([*self._running], np.int64),
            "running": np.array([*self._running.values()], np.float64),
        }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        self._norm.load_state_dict({k: torch.as_tensor(v) for k, v in state["norm"].items()})
        self._read()
        ids = np.asarray(state["env_id"]).tolist()
        self._running = dict(zip(ids, np.asarray(state["running"]).tolist(), strict=True))


class RewardNorm:
    """Divides rewards by the standard deviation of discounted returns; implements `IRewardModel`.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
    """

    config_class = RewardNormConfig

    def __init__(self, cfg: RewardNormConfig | Mapping[str, Any] | None = None) -> None:
        self._cfg = cfg = as_config(cfg, RewardNormConfig)
        self._scale = ReturnScale(cfg.reward_discount, cfg.epsilon)
        self._new: list[tuple[Array, Array | None, Array | None]] = []

    def estimate(self, data: Batch) -> Batch:
        """Returns the samples with normalised rewards; see `IRewardModel`."""
        reward, limit = data["reward"], self._cfg.limit
        if not is_tensor(reward):
            reward = np.asarray(reward, np.float32)
        return Batch(
            {**data.columns, "reward": (reward / self._scale.value).clip(-limit, limit)}, len(data)
        )

    def train(self) -> None:
        """Adds the rewards of new samples to the statistics."""
        for reward, env_id, end in self._new:
            self._scale.update(reward, env_id, end)
        self._new.clear()

    def collect_data(self, data: Batch) -> None:
        """Stores the rewards of samples in time order, with `env_id` and `end` (or `done`)."""
        reward = np.array(data["reward"], np.float64)
        if reward.ndim > 1:
            raise UsageError(
                f"reward model 'reward_norm' normalises one reward per step, but the environment"
                f" returns rewards {list(reward.shape[1:])}",
                hint="add them up in the environment or in a wrapper",
            )
        self._new.append((reward, *origin_of(data)))

    def clear_data(self) -> None:
        """Removes the rewards that were not added to the statistics yet."""
        self._new.clear()

    def state_dict(self) -> StateDict:
        """Returns the statistics, and new rewards."""
        return {"scale": self._scale.state_dict(), "new": [list(each) for each in self._new]}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        self._scale.load_state_dict(state["scale"])
        self._new = [tuple(each) for each in state["new"]]


def origin_of(data: Batch) -> tuple[Array | None, Array | None]:
    """Returns copies of the env ids [B] and the ends of episodes [B] of samples, if they are there.

    Without `end`, `done` tells the ends.
    """
    env_id, end = data.get("env_id"), data.get("end", data.get("done"))
    return (
        None if env_id is None else np.array(env_id, np.int64),
        None if end is None else np.array(end, np.bool_),
    )


def by_step(column: npt.NDArray[np.int64]) -> list[npt.NDArray[np.int64]]:
    """Returns the rows of the first step of each environment, then those of the second, and so on.

    Args:
        column: int64 [B]; the environments from 0 on, each in time order.
    """
    order, counts = np.argsort(column, kind="stable"), np.bincount(column)
    step = np.empty(len(column), np.int64)  # the number of a row among those of its environment
    step[order] = np.arange(len(column)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.split(np.argsort(step, kind="stable"), np.cumsum(np.bincount(step))[:-1])
