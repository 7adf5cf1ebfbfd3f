"""Timestep: what one step of an environment returns, and its stacked form for K environments.

Shapes: K environments, `...` the shape of one observation.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dicore.data.tree import Tree, tree_row, tree_stack


class _Fields(NamedTuple):
    obs: Any
    reward: Any
    done: bool
    info: dict[str, Any]


class Timestep(_Fields):
    """A tuple `(obs, reward, done, info)` of length 4; `done = terminated | truncated`.

    Args:
        obs: The true observation after the step, at an episode's end too.
        reward: In the environment's own units.
        done: The episode ended, for whatever reason.
        info: The environment's facts about the step.
        truncated: The episode was cut (a time limit); its last state is not terminal.
    """

    truncated: bool
    terminated: bool

    def __new__(
        cls,
        obs: Any,
        reward: Any,
        done: bool,
        info: dict[str, Any],
        *,
        truncated: bool = False,
        terminated: bool | None = None,
    ) -> Self:
        self = super().__new__(cls, obs, reward, done, info)
        self.truncated = bool(truncated)
        self.terminated = bool(done and not truncated) if terminated is None else bool(terminated)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (*self, self.truncated, self.terminated)


def _rebuild(
    obs: Any, reward: Any, done: bool, info: dict[str, Any], truncated: bool, terminated: bool
) -> Timestep:
    return Timestep(obs, reward, done, info, truncated=truncated, terminated=terminated)


class TimestepBatch:
    """The timesteps of K environments as arrays.

    Args:
        obs: The true observations after the step, [K, ...] (or a dict of such).
        reward: float32 [K].
        terminated: bool [K]; the state reached is terminal.
        truncated: bool [K]; the episode was cut, its last state still has a value.
        info: One dict per environment.
        abnormal: bool [K] of steps not to learn from, or None when there is none (the usual case).
    """

    __slots__ = ("abnormal", "info", "obs", "reward", "terminated", "truncated")

    def __init__(
        self,
        obs: Tree,
        reward: npt.NDArray[np.float32],
        terminated: npt.NDArray[np.bool_],
        truncated: npt.NDArray[np.bool_],
        info: list[dict[str, Any]],
        abnormal: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self.obs = obs
        self.reward = reward
        self.terminated = terminated
        self.truncated = truncated
        self.info = info
        self.abnormal = abnormal

    @classmethod
    def stack(cls, steps: list[Timestep]) -> Self:
        """Stacks single timesteps; the way in for managers that hold rows."""
        abnormal = np.array([bool(step.info.get("abnormal")) for step in steps])
        return cls(
            tree_stack([step.obs for step in steps]),
            np.array([step.reward for step in steps], np.float32),
            np.array([getattr(step, "terminated", step.done) for step in steps], np.bool_),
            np.array([getattr(step, "truncated", False) for step in steps], np.bool_),
            [step.info for step in steps],
            abnormal if abnormal.any() else None,
        )

    @property
    def done(self) -> npt.NDArray[np.bool_]:
        """Bool [K]: terminated or truncated."""
        return self.terminated | self.truncated

    def row(self, index: Any) -> Timestep:
        """Returns one environment's timestep; the observation is a view."""
        terminated, truncated = bool(self.terminated[index]), bool(self.truncated[index])
        return Timestep(
            tree_row(self.obs, index),
            self.reward[index],
            terminated or truncated,
            self.info[index],
            truncated=truncated,
            terminated=terminated,
        )

    def __len__(self) -> int:
        return len(self.reward)

    def __iter__(self) -> Iterator[Any]:
        yield from (self.obs, self.reward, self.done, self.info)
