"""Options of decentralised actors with centralised Q networks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from dicore.config.schema import frozen, option
from dicore_agents.models.config import MemoryConfig

if TYPE_CHECKING:
    from dicore.interfaces.model import IModel
    from dicore.run.env_factory import BuildContext

__all__ = ["MADDPGModelConfig", "MASACModelConfig", "TeamQACConfig"]


@frozen(kw_only=True)
class TeamQACConfig(MemoryConfig):
    """An actor for each agent that sees its own observation, and Q networks that see all."""

    action_shape: int | None = option(
        None, "numbers of the action of one agent, or its actions; None: read from the env", ge=1
    )
    state_shape: int | None = option(
        None, "numbers that critics see beside the actions; None: read from the env", ge=1
    )
    discrete: bool = option(False, "each agent chooses one action; read from the env")
    critic_share: Literal["all", "group", "none"] | None = option(
        None, "agents that have one critic: all, those of a group, or none; None: as share"
    )
    critic_sees: Literal["state", "observations"] | None = option(
        None,
        "what critics see beside the actions: the state of the team, or the observations of all"
        " agents; None: the state if the env gives one",
    )
    num_critics: int = option(1, "number of Q networks, of which targets take the minimum", ge=1)
    hidden_size_list: tuple[int, ...] = option(
        (64, 64), "units of each hidden layer of the actors", ge=1
    )
    critic_hidden_size_list: tuple[int, ...] = option(
        (64, 64), "units of each hidden layer of each Q network", ge=1
    )

    @property
    def _has_groups(self) -> bool:
        return "group" in (self.share, self.critic_share)

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()
        if self.critic_share == "group" and self.share != "group" and self.groups is None:
            yield "groups", "is missing; set the group of each agent, or critic_share=all"

    def _arguments(self) -> dict[str, Any]:
        return {
            **super()._arguments(),
            "state_shape": self.state_shape,
            "discrete": self.discrete,
            "critic_share": self.critic_share,
            "critic_sees": self.critic_sees,
            "num_critics": self.num_critics,
            "critic_hidden_size_list": self.critic_hidden_size_list,
        }


@frozen(kw_only=True)
class MADDPGModelConfig(TeamQACConfig):
    """Deterministic actors, or logits of discrete actions, and Q networks (Lowe et al. 2017)."""

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network.

        Raises:
            ConfigError: a shape is missing.
        """
        from dicore_agents.models.team_q import TeamQAC

        return TeamQAC(**self._arguments())


@frozen(kw_only=True)
class MASACModelConfig(TeamQACConfig):
    """Stochastic actors and Q networks; those of discrete actions value each own action."""

    num_critics: int = option(2, "number of Q networks, of which targets take the minimum", ge=1)

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network.

        Raises:
            ConfigError: a shape is missing.
        """
        from dicore_agents.models.team_q import TeamQAC

        return TeamQAC(soft=True, **self._arguments())
