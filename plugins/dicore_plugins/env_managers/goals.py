"""Rewards of other goals, computed by environments on columns, in workers too.

Environments with goals have `compute_reward(achieved_goal, desired_goal, info)` and may have
`compute_terminated`, as in Gymnasium-Robotics (Plappert et al. 2018, arXiv:1802.09464).

Shapes: B samples, `...` one goal.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import numpy.typing as npt
import optree

from dicore.data import Tree, tree_map, tree_row
from dicore.data.tree import Array
from dicore.errors import EnvError, NonFiniteError, UsageError

__all__ = ["GOAL_KEYS", "GoalFunctions"]

_LOG = logging.getLogger("dicore.env")
GOAL_KEYS = ("achieved_goal", "desired_goal")
"""Keys of the goals in observations."""


class GoalFunctions:
    """Computes rewards and terminations of goals by an environment of a manager.

    Args:
        manager: An env manager with `env_call`.

    Attributes:
        has_terminated: Whether the environment tells which goals end an episode.

    Raises:
        UsageError: the environment has no goals, or cannot compute rewards.
    """

    def __init__(self, manager: Any) -> None:
        self._manager = manager
        space = manager.observation_space
        parts = getattr(space, "spaces", {})
        if not hasattr(parts, "keys") or not set(GOAL_KEYS) <= parts.keys():
            raise UsageError(
                f"the environment has no goals: its observation space is {space}",
                hint="observations are a Dict with observation, achieved_goal and desired_goal",
            )
        samples = [parts[key].sample() for key in GOAL_KEYS]
        goals = tree_map(lambda leaf: np.asarray(leaf)[None], samples)
        self.has_terminated = self._known("compute_terminated", *goals)
        if not self._known("compute_reward", *goals):
            raise UsageError(
                "the environment has no compute_reward(achieved_goal, desired_goal, info)",
                hint="define it, for goals with leading axes; wrappers pass it on",
            )
        self._by_row: set[str] = set()

    def _known(self, name: str, *goals: object) -> bool:
        try:
            self._ask(name, *goals)
        except AttributeError:
            return False
        return True

    def reward(self, achieved: Tree, desired: Tree) -> npt.NDArray[np.float32]:
        """Returns the rewards float32 [B] of achieved and desired goals [B, ...].

        Raises:
            NonFiniteError: a reward is NaN or infinite.
        """
        found = self._column("compute_reward", achieved, desired, np.float32)
        bad = np.flatnonzero(~np.isfinite(found))
        if len(bad):
            row = int(bad[0])
            raise NonFiniteError(
                f"compute_reward returned {found[row]} for the goals"
                f" {tree_row(achieved, row)} and {tree_row(desired, row)}",
                hint="return finite rewards for all goals of the space",
            )
        return found

    def terminated(self, achieved: Tree, desired: Tree) -> npt.NDArray[np.bool_]:
        """Returns which goals end an episode, bool [B]; see `has_terminated`."""
        return self._column("compute_terminated", achieved, desired, np.bool_)

    def _column(self, name: str, achieved: Tree, desired: Tree, dtype: npt.DTypeLike) -> Array:
        count = len(optree.tree_leaves(achieved)[0])
        if name not in self._by_row:
            found = np.asarray(self._ask(name, achieved, desired))
            if found.shape == (count,):
                return found.astype(dtype)
            self._by_row.add(name)
            _LOG.warning(
                "%s of the environment returns %s for %d goals; it is called for each of them",
                name, [*found.shape] if found.shape else "one value", count,
            )  # fmt: skip
        rows = [
            self._ask(name, tree_row(achieved, row), tree_row(desired, row)) for row in range(count)
        ]
        return np.array(rows, dtype).reshape(count)

    def _ask(self, name: str, achieved: Tree, desired: Tree) -> Any:
        """Calls a method of the first environment whose worker is alive."""
        lost: EnvError | None = None
        for env_id in range(self._manager.env_num):
            try:
                return self._manager.env_call(name, achieved, desired, {}, ids=[env_id])[0]
            except EnvError as error:
                lost = error
        assert lost is not None
        raise lost
