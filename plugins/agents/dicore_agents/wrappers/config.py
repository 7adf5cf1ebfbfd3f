"""Options of the wrappers between one agent and several, and of those for each agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dicore.config.schema import ComponentConfig, frozen, option

if TYPE_CHECKING:
    from dicore.interfaces.env import Env
    from dicore.run.env_factory import BuildContext

__all__ = [
    "AgentFlatObsConfig", "AgentFrameStackConfig", "AgentObsNormConfig", "AgentsAsOneConfig",
    "OneAsAgentsConfig",
]  # fmt: skip


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


@frozen(kw_only=True)
class AgentFlatObsConfig(ComponentConfig):
    """Makes one row of numbers of the vectors and images that each agent of a team sees."""

    by_bounds: bool = option(
        False, "divide numbers by their largest bound, where it is finite: all are within -1 and 1"
    )

    def build(self, ctx: BuildContext | None, **parts: Any) -> Env:
        """Wraps `env`."""
        from dicore_agents.wrappers.agent_flat import AgentFlatObs
        from dicore_plugins.env_wrappers import from_gym

        return AgentFlatObs(from_gym(parts["env"]), by_bounds=self.by_bounds)


@frozen(kw_only=True)
class AgentFrameStackConfig(ComponentConfig):
    """Stacks the last n observations of each agent of a team."""

    n_frames: int = option(4, "frames to stack; padded with the first frame of the agent", ge=1)

    def build(self, ctx: BuildContext | None, **parts: Any) -> Env:
        """Wraps `env`."""
        from dicore_agents.wrappers.agent_rows import AgentFrameStack
        from dicore_plugins.env_wrappers import from_gym

        return AgentFrameStack(from_gym(parts["env"]), self.n_frames)


@frozen(kw_only=True)
class AgentObsNormConfig(ComponentConfig):
    """Normalises what each agent of a team sees by its running mean and std, per env."""

    epsilon: float = option(1e-8, "added to the variance to avoid division by zero", gt=0)

    def build(self, ctx: BuildContext | None, **parts: Any) -> Env:
        """Wraps `env`."""
        from dicore_agents.wrappers.agent_rows import AgentObsNorm
        from dicore_plugins.env_wrappers import from_gym

        return AgentObsNorm(from_gym(parts["env"]), self.epsilon)
