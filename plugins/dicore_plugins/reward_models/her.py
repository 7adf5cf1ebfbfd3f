"""Hindsight experience replay: an episode that missed its goal reached another one.

Andrychowicz et al. 2017, arXiv:1707.01495. Observations are a dict with `achieved_goal` and
`desired_goal`.

Shapes: T steps of episodes, E episodes, B samples, `...` one item.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from dicore.config.compiler import as_config
from dicore.data import Batch, State, StateDict, Tree, tree_map, tree_row
from dicore.errors import SchemaError
from dicore.run.random import stream
from dicore_plugins.reward_models.config import HERConfig

__all__ = ["HER", "SupportsGoals"]

Index = npt.NDArray[np.int64]


class SupportsGoals(Protocol):
    """Computes rewards and terminations of goals; see `GoalFunctions`."""

    has_terminated: bool
    """Whether `terminated` is known."""

    def reward(self, achieved: Tree, desired: Tree) -> npt.NDArray[np.float32]:
        """Returns the rewards float32 [B] of goals [B, ...]."""

    def terminated(self, achieved: Tree, desired: Tree) -> npt.NDArray[np.bool_]:
        """Returns which goals end an episode, bool [B]."""


class HER:
    """Replaces goals of samples by goals that were reached; implements `IRewardModel`.

    `relabel` makes samples of whole episodes; `estimate` computes the rewards of samples for the
    goals that they have. There is nothing to train.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        goals: Computes rewards; `GoalFunctions(env_manager)`.
        rng: Random generator; None: the stream `reward_model`.
    """

    config_class = HERConfig

    def __init__(
        self,
        cfg: HERConfig | Mapping[str, Any] | None = None,
        goals: SupportsGoals | None = None,
        *,
        rng: np.random.Generator | None = None,
    ) -> None:
        self._cfg = as_config(cfg, HERConfig)
        if goals is None:
            raise SchemaError("HER needs goals", hint="pass GoalFunctions(env_manager)")
        self._goals = goals
        self._rng = stream("reward_model") if rng is None else rng

    def episodes_per_batch(self, batch_size: int) -> int:
        """Returns the number of episodes E to draw for a batch of B samples."""
        given = self._cfg.episode_size
        return max(1, batch_size // self._cfg.sample_per_episode) if given is None else int(given)

    def relabel(self, episodes: Batch) -> Batch:
        """Draws samples of episodes, and replaces the goals of some.

        Of each episode `sample_per_episode` steps are drawn uniformly. A share of
        `replay_k / (replay_k + 1)` of the samples gets a goal that was achieved after a step
        drawn by `strategy`, and the reward (and termination, if the environment tells it) that the
        environment computes for it.

        Args:
            episodes: E episodes, one after the other, [T, ...]: obs, next_obs, action, reward,
                done, and `end` bool [T], true at the last step of each.

        Returns:
            Samples [B, ...] with the columns of the episodes.

        Raises:
            SchemaError: the last step is no end, or observations have no goals.
        """
        row, goal_row = self._drawn(episodes)
        samples = {key: tree_row(column, row) for key, column in episodes.items()}
        obs, after = _with_goals(samples["obs"]), _with_goals(samples["next_obs"])
        changed = np.flatnonzero(goal_row >= 0)
        if not len(changed):
            return Batch(samples, len(row))
        reached = episodes["next_obs"]["achieved_goal"]
        goal = tree_row(reached, goal_row[changed])
        for each in (obs, after):
            each["desired_goal"] = _replaced(each["desired_goal"], changed, goal)
        achieved = tree_row(after["achieved_goal"], changed)
        samples["obs"], samples["next_obs"] = obs, after
        samples["reward"] = np.array(samples["reward"], np.float32)
        samples["reward"][changed] = self._goals.reward(achieved, goal)
        if self._goals.has_terminated:
            samples["done"] = np.array(samples["done"])
            samples["done"][changed] = self._goals.terminated(achieved, goal)
        return Batch(samples, len(row))

    def _drawn(self, episodes: Batch) -> tuple[Index, Index]:
        """Returns the rows of samples [B], and those whose achieved goals replace theirs or -1."""
        cfg, rng = self._cfg, self._rng
        ends = np.flatnonzero(episodes["end"])
        if not len(ends) or ends[-1] != len(episodes) - 1:
            raise SchemaError(
                "hindsight goals need whole episodes: the last step is no end",
                hint="set policy.other.replay_buffer=episode",
            )
        first = np.concatenate([[0], ends[:-1] + 1])
        first, last = (each.repeat(cfg.sample_per_episode) for each in (first, ends))
        row = rng.integers(first, last + 1)
        bounds = {"future": (row, last), "final": (last, last), "episode": (first, last)}
        low, high = bounds[cfg.strategy]
        goal_row = rng.integers(low, high + 1)
        share = 1.0 if np.isinf(cfg.replay_k) else cfg.replay_k / (cfg.replay_k + 1)
        goal_row[rng.random(len(row)) >= share] = -1
        return row, goal_row

    # ---- the contract

    def estimate(self, data: Batch) -> Batch:
        """Returns the samples with the rewards of the goals that they have."""
        after = _with_goals(data["next_obs"])
        reward = self._goals.reward(after["achieved_goal"], after["desired_goal"])
        return Batch({**data.columns, "reward": reward}, len(data))

    def train(self) -> None:
        """Does nothing: there is nothing to train."""

    def collect_data(self, data: Batch) -> None:
        """Does nothing: the replay buffer has the episodes."""

    def clear_data(self) -> None:
        """Does nothing: it stores no samples."""

    def state_dict(self) -> StateDict:
        """Returns the state of the random generator."""
        return {"rng": self._rng.bit_generator.state}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned; the same samples are drawn."""
        self._rng.bit_generator.state = dict(state["rng"])


def _with_goals(obs: Tree) -> dict[str, Any]:
    """Returns the parts of observations with goals, in a new dict."""
    if isinstance(obs, Mapping) and {"achieved_goal", "desired_goal"} <= obs.keys():
        return dict(obs)
    has = ", ".join(obs) if isinstance(obs, Mapping) else f"an array {list(np.shape(obs)[1:])}"
    raise SchemaError(
        f"observations have no achieved_goal and desired_goal, but {has}",
        hint="use an environment with goals, without wrappers that flatten them",
    )


def _replaced(tree: Tree, rows: Index, values: Tree) -> Tree:
    """Returns a copy of columns with other values in some rows."""

    def replace(leaf: Tree, value: Tree) -> Any:
        leaf = np.array(leaf)
        leaf[rows] = value
        return leaf

    return tree_map(replace, tree, values)
