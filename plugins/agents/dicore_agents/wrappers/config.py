"""Options of the wrappers between one agent and several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dicore.config.schema import ComponentConfig, frozen

if TYPE_CHECKING:
    from dicore.interfaces.env import Env
    from dicore.run.env_factory import BuildContext

__all__ = ["AgentsAsOneConfig", "OneAsAgentsConfig"]


@frozen(kw_only=True)
class AgentsAsOneConfig(ComponentConfig):
    """Makes one agent of several: wide observations and actions, the sum of the rewards."""

    def build(self, ctx: BuildContext | None, **parts: Any) -> Env:
        """Wraps `env`."""
        from dicore_agents.wrappers.agents_as_one import AgentsAsOne
        from dicore_plugins.env_wrappers import from_gym

        return AgentsAsOne(from_gym(parts["env"]))


@frozen(kw_only=True)
class OneAsAgentsConfig(ComponentConfig):
    """Gives an environment of one agent an axis of agents."""

    def build(self, ctx: BuildContext | None, **parts: Any) -> Env:
        """Wraps `env`."""
        from dicore_agents.wrappers.one_as_agents import OneAsAgents
        from dicore_plugins.env_wrappers import from_gym

        return OneAsAgents(from_gym(parts["env"]))
