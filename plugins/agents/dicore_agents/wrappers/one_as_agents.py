"""An environment of a single agent as one of several, of which there is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from dicore.data import Tree
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_agents.envs.form import agents_space
from dicore_agents.envs.rows import ActionRows, ObservationRows

if TYPE_CHECKING:
    from dicore.data import Info
    from dicore.interfaces.env import Env, Space

__all__ = ["OneAsAgents"]


class OneAsAgents(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Gives an environment of one agent an axis of agents, for policies of several.

    Observations are a Dict of `obs` [1, ...], and `action_mask` [1, n] if they had one. Actions are
    MultiDiscrete [1], or a Box [1, ...]. Rewards stay one number.

    Args:
        env: An environment of one agent.

    Raises:
        ConfigError: it has several agents, or its actions are neither one choice nor a Box.
    """

    agent_ids = ("agent_0",)

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        spec = EnvSpec.of(env)
        if spec.agents:
            raise ConfigError(
                f"env.env_wrapper: 'one_as_agents' needs an environment of one agent; this one has"
                f" {len(spec.agents)}",
                hint="drop the wrapper",
            )
        self._rows = ObservationRows([_unmasked(spec.observation)], self.agent_ids, pad=False)
        self._actions = ActionRows([spec.action], self.agent_ids, pad=False)
        parts = getattr(spec.observation, "spaces", None)
        masked = isinstance(parts, Mapping) and "action_mask" in parts
        sizes = self._actions.sizes if masked else None
        self.observation_space = agents_space(self._rows.space, masked=sizes[0] if sizes else None)
        self.action_space = self._actions.space
        self._masked = sizes is not None

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Tree, Info]:
        """Starts an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._seen(obs), info

    def step(self, action: Tree) -> tuple[Tree, Tree, bool, bool, Info]:
        """Acts for the one agent."""
        (given,) = self._actions.split(action)
        obs, *told = self.env.step(given)
        return (self._seen(obs), *told)

    def _seen(self, obs: Tree) -> Tree:
        rows = self._rows.join([_without_mask(obs)])
        if not self._masked:
            return {"obs": rows}
        return {"obs": rows, "action_mask": np.asarray(obs["action_mask"], np.int8)[None]}


def _unmasked(space: Space) -> Space:
    """Returns what an observation space has beside a mask."""
    parts: Any = getattr(space, "spaces", None)
    if not isinstance(parts, Mapping) or "action_mask" not in parts:
        return space
    rest = {key: part for key, part in parts.items() if key != "action_mask"}
    return next(iter(rest.values())) if len(rest) == 1 else spaces.Dict(rest)


def _without_mask(obs: Tree) -> Tree:
    if not isinstance(obs, Mapping) or "action_mask" not in obs:
        return obs
    rest = {key: part for key, part in obs.items() if key != "action_mask"}
    return next(iter(rest.values())) if len(rest) == 1 else rest
