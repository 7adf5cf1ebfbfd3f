"""Options of the networks of teams that learn values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from dicore.config.schema import ComponentConfig, frozen, option
from dicore_plugins.policies import unused_options

if TYPE_CHECKING:
    from dicore.interfaces.model import IModel
    from dicore.run.env_factory import BuildContext

__all__ = [
    "AgentNetConfig", "AgentQConfig", "CollaQModelConfig", "MemoryConfig", "MixedConfig",
    "QMIXModelConfig", "QPLEXModelConfig", "QTRANModelConfig", "VDNModelConfig", "WQMIXModelConfig",
]  # fmt: skip


@frozen(kw_only=True)
class AgentNetConfig(ComponentConfig):
    """Options of networks of several agents."""

    obs_shape: int | None = option(
        None, "numbers in the observation of one agent; None: read from the env", ge=1
    )
    action_shape: int | None = option(
        None, "number of actions of one agent; None: read from the env", ge=1
    )
    agents: int | None = option(None, "number of agents; None: read from the env", ge=1)
    groups: tuple[int, ...] | None = option(
        None, "number of the group of each agent, from 0 on, for share=group", ge=0
    )
    share: Literal["all", "group", "none"] = option(
        "all", "agents that have one network: all, those of a group, or none"
    )
    agent_ids: bool = option(
        True, "append the number of the agent to its observation, one-hot; agents of one network"
        " can then act differently"
    )  # fmt: skip
    hidden_size_list: tuple[int, ...] = option((64, 64), "units of each hidden layer", ge=1)
    activation: Literal["relu", "tanh", "elu"] = option(
        "relu", "activation function of the hidden layers"
    )

    @property
    def _has_groups(self) -> bool:
        """Whether agents of a group share a network."""
        return self.share == "group"

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        count = self.agents
        if self.groups is not None and not self._has_groups:
            yield "groups", f"have no effect with share={self.share}; set share=group"
        if self.share == "group" and self.groups is None:
            yield "groups", "is missing; set the group of each agent, or share=all"
        if count is not None and self.groups is not None and len(self.groups) != count:
            yield "groups", f"names {len(self.groups)} agents, the environment has {count}"
        if self.groups is not None and {*self.groups} != {*range(max(self.groups, default=-1) + 1)}:
            yield "groups", f"must number the groups from 0 on, got {list(self.groups)}"

    def _arguments(self) -> dict[str, Any]:
        """Returns the options as keyword arguments of the network."""
        return {
            "obs_shape": self.obs_shape,
            "action_shape": self.action_shape,
            "agents": self.agents,
            "groups": self.groups,
            "share": self.share,
            "agent_ids": self.agent_ids,
            "hidden_size_list": self.hidden_size_list,
            "activation": self.activation,
        }


@frozen(kw_only=True)
class MemoryConfig(AgentNetConfig):
    """Options of networks of several agents that may have a memory."""

    rnn: Literal["lstm", "gru"] | None = option(
        None, "recurrent layer after the hidden layers; None: no memory"
    )
    rnn_hidden_size: int = option(64, "units of the recurrent layer", ge=1)

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other, or have no effect."""
        yield from super().check()
        if self.rnn is None:
            yield from unused_options(self, "rnn", "rnn_hidden_size")

    def _arguments(self) -> dict[str, Any]:
        memory = {"rnn": self.rnn, "rnn_hidden_size": self.rnn_hidden_size}
        return {**super()._arguments(), **memory}


@frozen(kw_only=True)
class AgentQConfig(MemoryConfig):
    """A Q network for each agent, or one that all share."""

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network.

        Raises:
            ConfigError: a shape is missing.
        """
        from dicore_agents.models.agent_q import AgentQ

        return AgentQ(**self._arguments())


@frozen(kw_only=True)
class VDNModelConfig(AgentQConfig):
    """Q networks whose values are added (Sunehag et al. 2018)."""

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network."""
        from dicore_agents.models.mixers import TeamQ, VDNMixer

        return TeamQ(VDNMixer, **self._arguments())


@frozen(kw_only=True)
class MixedConfig(AgentQConfig):
    """Q networks, and a network that mixes their values by the state of the team."""

    state_shape: int | None = option(
        None, "numbers in the state of the team; None: read from the env", ge=1
    )
    mixing_size: int = option(32, "units of the network that mixes the values", ge=1)

    def _mixing(self) -> dict[str, Any]:
        return {"state_shape": self.state_shape, "mixing_size": self.mixing_size}


@frozen(kw_only=True)
class QMIXModelConfig(MixedConfig):
    """Q networks whose values are mixed monotonically (Rashid et al. 2018)."""

    hyper_size: int = option(64, "units of the networks that make the weights of the mixer", ge=1)

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network."""
        from dicore_agents.models.mixers import QMIXMixer, TeamQ

        mixing = {**self._mixing(), "hyper_size": self.hyper_size}
        return TeamQ(QMIXMixer, mixing, **self._arguments())


@frozen(kw_only=True)
class CollaQModelConfig(QMIXModelConfig):
    """Q networks of a part for oneself and one for others, mixed monotonically (Zhang 2020)."""

    others: tuple[tuple[int, int], ...] = option(
        (), "numbers of an observation that tell of one other agent, from a first one to before"
        " another, for each: [[4, 8], [8, 12]]",
    )  # fmt: skip
    attention_size: int | None = option(
        32, "numbers that sum up the others by attention, which needs as many of each; None: they"
        " are seen as they are", ge=1,
    )  # fmt: skip

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()
        last = 0
        for first, after in sorted(self.others):
            if first < last or after <= first:
                yield (
                    "others",
                    f"[{first}, {after}] is empty, or in another part; got {self.others}",
                )
                return
            last = after
        if self.attention_size is not None and len({b - a for a, b in self.others}) > 1:
            yield "others", "attention needs as many numbers of each; or set attention_size=None"

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network."""
        from dicore_agents.models.collaq import CollaQNet

        mixing = {**self._mixing(), "hyper_size": self.hyper_size}
        return CollaQNet(mixing, self.others, self.attention_size, **self._arguments())


@frozen(kw_only=True)
class WQMIXModelConfig(QMIXModelConfig):
    """Q networks mixed monotonically, beside others mixed freely (Rashid et al. 2020)."""

    central_size: int = option(64, "units of the two hidden layers of the free mixer", ge=1)

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network."""
        from dicore_agents.models.mixers import WeightedTeamQ

        mixing = {**self._mixing(), "hyper_size": self.hyper_size}
        return WeightedTeamQ(mixing, self.central_size, **self._arguments())


@frozen(kw_only=True)
class QPLEXModelConfig(MixedConfig):
    """Q networks in duplex dueling form (Wang et al. 2021)."""

    mixing_size: int = option(64, "units of the networks that mix the values", ge=1)
    heads: int = option(10, "heads of the attention that weighs the advantages", ge=1)

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network."""
        from dicore_agents.models.mixers import QPLEXMixer, TeamQ

        actions = {"actions": self.action_shape, "heads": self.heads}
        return TeamQ(QPLEXMixer, {**self._mixing(), **actions}, **self._arguments())


@frozen(kw_only=True)
class QTRANModelConfig(MixedConfig):
    """Q networks beside a value of all actions together (Son et al. 2019)."""

    mixing_size: int = option(64, "units of the hidden layers of the values of the team", ge=1)

    def build(self, ctx: BuildContext | None, **parts: object) -> IModel:
        """Builds the network."""
        from dicore_agents.models.mixers import QTRANNet

        return QTRANNet(self._mixing(), **self._arguments())
