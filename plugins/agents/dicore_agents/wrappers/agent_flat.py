"""What agents see in several parts, as one row of numbers for each.

Shapes: A agents, D numbers of an observation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dicore.data import Tree
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec

if TYPE_CHECKING:
    from dicore.data import Info
    from dicore.interfaces.env import Env, Space

__all__ = ["AgentFlatObs"]


class AgentFlatObs(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Makes one row of numbers of the parts that each agent sees: `obs` float32 [A, D].

    `obs` of the environment is a Dict or a tuple, perhaps nested, of vectors and images with an
    axis of agents, [A, ...]. They follow each other as in the space; uint8 is divided by 255.
    `alive`, masks and the state stay.

    Args:
        env: An environment of several agents.
        by_bounds: Divide numbers by their largest bound, where both are finite, so that they are
            within -1 and 1.

    Raises:
        ConfigError: it has one agent, or a part is no array with a row for each agent.
    """

    def __init__(self, env: Env, *, by_bounds: bool = False) -> None:
        super().__init__(env)
        spec = EnvSpec.of(env)
        parts = dict(getattr(spec.observation, "spaces", None) or {})
        if not spec.agents or "obs" not in parts:
            raise ConfigError(
                "env.env_wrapper: 'agent_flat_obs' needs what several agents see, Dict(obs: ...),"
                f" but wraps an environment with {spec.observation}",
                hint="for one agent: flat_obs",
            )
        count, bounds = len(spec.agents), []
        for path, leaf in _leaves(parts["obs"], "obs"):
            fits = isinstance(leaf, spaces.Box | spaces.MultiBinary) and leaf.shape[:1] == (count,)
            if not fits:
                raise ConfigError(
                    f"env.env_wrapper: 'agent_flat_obs' needs arrays with a row for each of {count}"
                    f" agents; {path} is {leaf}",
                    hint="give each part the axis of agents: Box(A, ...)",
                )
            bounds.append(_bounds(leaf))
        low, high = (np.concatenate([each[end] for each in bounds], 1) for end in (0, 1))
        most = np.maximum(np.abs(low), np.abs(high))
        scaled = np.isfinite(most) & (most > 0) & by_bounds
        self._unit = np.where(scaled, most, np.float32(1))
        box = spaces.Box(low / self._unit, high / self._unit)
        self.observation_space = spaces.Dict({**parts, "obs": box})

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Tree, Info]:
        """Starts an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._flat(obs), info

    def step(self, action: Tree) -> tuple[Tree, Tree, bool, bool, Info]:
        """Steps the environment."""
        obs, *told = self.env.step(action)
        return (self._flat(obs), *told)

    def _flat(self, obs: Mapping[str, Any]) -> Tree:
        rows = np.empty(self._unit.shape, np.float32)
        space: Any = self.env.observation_space
        start = 0
        for leaf in _values(space["obs"], obs["obs"]):
            flat = _unit(leaf).reshape(len(rows), -1)
            rows[:, start : start + flat.shape[1]] = flat
            start += flat.shape[1]
        rows /= self._unit
        return {**obs, "obs": rows}


def _leaves(space: Space, path: str) -> Iterator[tuple[str, Any]]:
    """Yields the parts of a space with their paths."""
    inner = getattr(space, "spaces", None)
    if inner is None:
        yield path, space
        return
    for key, each in inner.items() if isinstance(inner, Mapping) else enumerate(inner):
        yield from _leaves(each, f"{path}.{key}")


def _values(space: Space, value: Any) -> Iterator[Any]:
    """Yields the arrays of a value in the order of its space."""
    inner: Any = getattr(space, "spaces", None)
    if inner is None:
        yield np.asarray(value)
        return
    keys = inner if isinstance(inner, Mapping) else range(len(inner))
    for key in keys:
        yield from _values(inner[key], value[key])


def _unit(leaf: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return leaf / np.float32(255) if leaf.dtype == np.uint8 else leaf


def _bounds(space: Any) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Returns the bounds of a part as float32 [A, ...]."""
    shape = (space.shape[0], math.prod(space.shape[1:]))
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(shape, np.float32), np.ones(shape, np.float32)
    with np.errstate(over="ignore"):  # bounds of float64 are infinite as float32
        low, high = (
            _unit(bound).astype(np.float32).reshape(shape) for bound in (space.low, space.high)
        )
    return low, high
