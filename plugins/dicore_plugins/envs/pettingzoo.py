"""Parallel environments of PettingZoo by id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import attrs

from dicore.config.schema import REQUIRED, frozen, option
from dicore.config.sections import EnvConfig
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = ["PettingZooConfig"]


@frozen(kw_only=True)
class PettingZooConfig(EnvConfig):
    """Any parallel PettingZoo environment by id, with a column per agent."""

    env_id: str = option(REQUIRED, "id, e.g. sisl.pursuit_v5, or a module with `parallel_env`")
    make_kwargs: dict[str, Any] = option({}, "keyword arguments of `parallel_env`")
    team_reward: bool = option(
        False, "return the sum of all agents' rewards, one number, instead of one per agent"
    )
    add_alive: bool = option(
        False, "return observations as {obs, alive}; `alive` [A] marks the agents that still act"
    )

    def with_pictures(self) -> Self:
        """Returns this config with rendering enabled, for videos."""
        return attrs.evolve(self, make_kwargs={**self.make_kwargs, "render_mode": "rgb_array"})

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Makes one environment.

        Raises:
            ConfigError: there is no such environment, or it is turn-based.
            MissingDependencyError: pettingzoo, or a package that the environment needs, is not
                installed.
        """
        from dicore_plugins.env_wrappers.parallel_agents import ParallelAgents, make_parallel

        env = make_parallel(self.env_id, **self.make_kwargs)
        return ParallelAgents(env, team_reward=self.team_reward, add_alive=self.add_alive)
