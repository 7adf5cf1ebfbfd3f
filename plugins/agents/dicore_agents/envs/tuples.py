"""Environments of Gymnasium whose spaces are tuples by agent, with the API of PettingZoo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces

from dicore.errors import ConfigError

if TYPE_CHECKING:
    from dicore.data import Info, Tree

__all__ = ["TuplesAsParallel"]


class TuplesAsParallel:
    """A `gymnasium.Env` whose observations, actions and rewards are sequences, one per agent.

    Level-based foraging and the multi-robot warehouse are of this form. Ends are of the episode, or
    sequences as well.

    Args:
        env: The environment.

    Raises:
        ConfigError: its spaces are no tuples of the same length.
    """

    def __init__(self, env: Any) -> None:
        self.env, seen, acting = env, env.observation_space, env.action_space
        tuples = isinstance(seen, spaces.Tuple) and isinstance(acting, spaces.Tuple)
        if not tuples or len(seen.spaces) != len(acting.spaces):
            raise ConfigError(
                "env.env_id: expected an environment of several agents, whose observations and"
                f" actions are tuples, one per agent; {env} has {seen} and {acting}",
                hint="for one agent, choose the component 'gymnasium'",
            )
        self.possible_agents = [f"agent_{number}" for number in range(len(seen.spaces))]
        self._seen = dict(zip(self.possible_agents, seen.spaces, strict=True))
        self._acting = dict(zip(self.possible_agents, acting.spaces, strict=True))
        self._idle = {
            name: int(each.start)
            if isinstance(each, spaces.Discrete)
            else np.zeros(each.shape, each.dtype)
            for name, each in self._acting.items()
        }
        self.agents: list[str] = []
        self.metadata, self.render_mode = dict(env.metadata), env.render_mode

    def observation_space(self, agent: str) -> Any:
        """Returns what an agent sees."""
        return self._seen[agent]

    def action_space(self, agent: str) -> Any:
        """Returns what an agent can do."""
        return self._acting[agent]

    def reset(
        self, seed: int | None = None, options: Info | None = None
    ) -> tuple[dict[str, Tree], dict[str, Info]]:
        """Begins an episode."""
        obs, _ = self.env.reset(seed=seed, options=options)
        self.agents = [*self.possible_agents]
        return self._by_agent(obs), {}

    def step(self, actions: dict[str, Tree]) -> tuple[dict[str, Tree], Any, Any, Any, Any]:
        """Steps all agents; actions of those that are done are 0."""
        given = tuple(actions.get(name, idle) for name, idle in self._idle.items())
        obs, rewards, terminated, truncated, _ = self.env.step(given)
        ended, cut = (
            self._by_agent(np.broadcast_to(each, len(self._seen)).tolist())
            for each in (terminated, truncated)
        )
        self.agents = [name for name in self.agents if not ended[name] and not cut[name]]
        return self._by_agent(obs), self._by_agent(rewards), ended, cut, {}

    def render(self) -> Tree:
        """Returns what the environment's `render` returns."""
        return self.env.render()

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()

    def __str__(self) -> str:
        return str(self.env)

    def _by_agent(self, values: Any) -> dict[str, Any]:
        return dict(zip(self.possible_agents, values, strict=True))
