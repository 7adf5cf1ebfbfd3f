"""An environment of several agents as one of a single agent, with wide observations and actions.

Shapes: A agents, n actions, D numbers that an agent sees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from dicore.data import Tree
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec

if TYPE_CHECKING:
    from dicore.data import Info
    from dicore.interfaces.env import Env

__all__ = ["AgentsAsOne"]


class AgentsAsOne(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Lets one agent, which sees what all see, act for all and earn what all earn.

    Observations are the rows of all agents, [A * D]; with masks, a Dict of these, `obs`, and
    `action_mask` [A, n]. Actions are MultiDiscrete [A], or a Box [A * d]. The reward is the sum.

    Args:
        env: An environment of several agents.

    Raises:
        ConfigError: it has one agent.
    """

    agent_ids = ()
    agent_num = 1
    state_space = None

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        spec = EnvSpec.of(env)
        parts: Any = getattr(spec.observation, "spaces", {})
        if not spec.agents or "obs" not in parts:
            raise ConfigError(
                "env.env_wrapper: 'agents_as_one' needs an environment of several agents, whose"
                f" observations are a Dict with 'obs'; this one has {spec.observation}",
                hint="drop the wrapper: one agent is what the environment has",
            )
        wide = _wide(parts["obs"])
        self._masked = "action_mask" in parts
        self.observation_space = (
            spaces.Dict({"obs": wide, "action_mask": parts["action_mask"]})
            if self._masked
            else wide
        )
        self._shape: tuple[int, ...] = tuple(spec.action.shape or ())
        if isinstance(spec.action, spaces.Box):
            self.action_space = _wide(spec.action)
        self.reward_space = spaces.Box(-np.inf, np.inf, (), np.float32)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Tree, Info]:
        """Starts an episode."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._seen(obs), info

    def step(self, action: Tree) -> tuple[Tree, Tree, bool, bool, Info]:
        """Acts for all agents."""
        given = np.reshape(action, self._shape)
        obs, reward, terminated, truncated, info = self.env.step(given)
        return self._seen(obs), float(np.asarray(reward).sum()), terminated, truncated, info

    def _seen(self, obs: Tree) -> Tree:
        wide = obs["obs"].reshape(-1)
        return {"obs": wide, "action_mask": obs["action_mask"]} if self._masked else wide


def _wide(box: spaces.Box) -> spaces.Box:
    return spaces.Box(box.low.reshape(-1), box.high.reshape(-1), dtype=box.dtype.type)
