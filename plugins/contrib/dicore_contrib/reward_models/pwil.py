"""Primal Wasserstein imitation learning: rewards by matching an episode to an expert's steps.

Dadashi et al. 2021, arXiv:2006.04678.

Shapes: B samples, N environments, D expert steps, F numbers of a step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Space

from dicore.config import as_config
from dicore.data import Batch, State, StateDict, Tree
from dicore.errors import UsageError
from dicore.run.random import stream
from dicore_contrib.reward_models.pwil_config import PWILConfig
from dicore_plugins.reward_models import (
    ExpertVectors,
    by_step,
    checked_samples,
    origin_of,
    pair_space,
    steps_of,
)

__all__ = ["PWIL"]

Array = npt.NDArray[np.float32]
_KEYS = ("obs", "action")


class PWIL:
    """Rewards steps that are close to an expert's; each of these counts once per episode.

    A step of the agent has the mass 1 / `horizon`, which is matched to the nearest expert steps
    that have mass left; c is what that costs, and the reward alpha exp(-beta horizon / sqrt(F) c).
    Nothing is trained. The mass that is left in the running episode of each environment is
    remembered from block to block; `estimate` continues from where the last but one ended.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        observation_space: Of one environment.
        action_space: Of one environment.
        expert: Data set of the expert's steps (`IDataset`); None: call `load_expert_data`.
        device: Ignored: matching is done by NumPy.

    Raises:
        UsageError: observations are images.
    """

    config_class = PWILConfig

    def __init__(
        self,
        cfg: PWILConfig | Mapping[str, Any] | None = None,
        *,
        observation_space: Space[Any],
        action_space: Space[Any],
        expert: Tree | None = None,
        device: str = "cpu",
    ) -> None:
        self._cfg = as_config(cfg, PWILConfig)
        self._vectors = ExpertVectors(pair_space(observation_space, action_space), self)
        self._expert: Array | None = None
        self._left: dict[int, Array] = {}
        self._before: dict[int, Array] = {}
        self._dataset = expert
        if expert is not None:
            self.load_expert_data(steps_of(expert))

    def load_expert_data(self, data: Batch) -> None:
        """Stores expert steps, at most `expert_steps` of them, drawn without replacement.

        Raises:
            UsageError: there are none.
            SchemaError: a column is missing.
            NonFiniteError: a number is NaN or infinite.
        """
        copied, most = checked_samples(data, _KEYS, self), self._cfg.expert_steps
        if len(copied) > most:
            drawn = stream("reward_model").choice(len(copied), most, replace=False)
            copied = copied[np.sort(drawn)]
        self._vectors.fit(copied.columns)
        self._expert = self._encoded(copied)
        self._left, self._before = {}, {}

    def _encoded(self, data: Batch) -> Array:
        encoded: Array = self._vectors({key: data[key] for key in _KEYS}).numpy()
        return encoded

    @property
    def _full(self) -> Array:
        """Mass of the expert's steps at the start of an episode, float32 [D]."""
        assert self._expert is not None
        return np.full(len(self._expert), 1 / len(self._expert), np.float32)

    # ---- the contract

    def estimate(self, data: Batch) -> Batch:
        """Returns the samples with the rewards of the matching; see `IRewardModel`."""
        if not len(data):
            return data
        reward, _ = self._matched(data, self._before)
        return Batch({**data.columns, "reward": reward}, len(data))

    def collect_data(self, data: Batch) -> None:
        """Continues the running episodes by samples in time order, with `env_id` and `end`."""
        if len(data):
            self._before, (_, self._left) = self._left, self._matched(data, self._left)

    def train(self) -> None:
        """Does nothing: there is nothing to train."""

    def clear_data(self) -> None:
        """Does nothing: it stores no samples."""

    def state_dict(self) -> StateDict:
        """Returns the mass left in running episodes, and the expert's steps."""
        left, before = (
            {"env_id": np.array([*each], np.int64), "mass": _stacked(each)}
            for each in (self._left, self._before)
        )
        facts = None if self._dataset is None else self._dataset.state_dict()
        return {
            "left": left, "before": before, "expert": facts, "steps": self._expert,
            "norm": self._vectors.state_dict(),
        }  # fmt: skip

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned.

        Raises:
            UsageError: the expert's data set is another.
        """
        if self._dataset is not None and state["expert"] is not None:
            self._dataset.load_state_dict(state["expert"])
        self._vectors.load_state_dict(state["norm"])
        self._expert = None if state["steps"] is None else np.asarray(state["steps"])
        self._left, self._before = (
            dict(zip(np.asarray(each["env_id"]).tolist(), np.asarray(each["mass"]), strict=True))
            for each in (state["left"], state["before"])
        )

    # ---- matching

    def _matched(self, data: Batch, before: Mapping[int, Array]) -> tuple[Array, dict[int, Array]]:
        """Returns the rewards [B], and the mass left afterwards by environment."""
        if self._expert is None:
            raise UsageError(f"{self} has no expert data", hint="call load_expert_data")
        agent, cfg = self._encoded(data), self._cfg
        ids, ends = origin_of(data)
        envs, end = (np.zeros(len(data), each) if given is None else given
                     for given, each in ((ids, np.int64), (ends, np.bool_)))  # fmt: skip
        known, column = np.unique(envs, return_inverse=True)
        left = np.stack([before.get(env, self._full) for env in known.tolist()])
        cost = np.empty(len(data), np.float32)
        for rows in by_step(column):
            at = column[rows]
            cost[rows], left[at] = self._transport(agent[rows], left[at])
            left[at[end[rows]]] = self._full
        scale = cfg.beta * cfg.horizon / math.sqrt(agent.shape[1])
        reward = (cfg.alpha * np.exp(-scale * cost)).astype(np.float32)
        return reward, {**before, **dict(zip(known.tolist(), left, strict=True))}

    def _transport(self, agent: Array, left: Array) -> tuple[Array, Array]:
        """Matches one step of each of N environments: [N, F], with the mass [N, D].

        Returns:
            The costs [N], infinite if no mass is left, and the mass left [N, D].
        """
        assert self._expert is not None
        distance = np.sqrt(
            np.maximum(
                (agent**2).sum(1)[:, None] + (self._expert**2).sum(1) - 2 * agent @ self._expert.T,
                0,
            )
        )
        order = np.argsort(distance, 1, kind="stable")
        near = np.take_along_axis(left, order, 1)
        wanted = np.float32(1 / self._cfg.horizon)
        taken = np.clip(wanted - (near.cumsum(1) - near), 0, near)
        cost = (taken * np.take_along_axis(distance, order, 1)).sum(1)
        cost[taken.sum(1) < wanted / 2] = np.inf
        rest = np.empty_like(left)
        np.put_along_axis(rest, order, near - taken, 1)
        return cost, rest

    def __repr__(self) -> str:
        return "reward model 'pwil'"


def _stacked(masses: Mapping[int, Array]) -> Array:
    return np.stack([*masses.values()]) if masses else np.zeros((0, 0), np.float32)
