"""Options of the algorithms that learn values of several agents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_agents.policies.memory_config import (
    burn_in_option,
    memory_problems,
    unroll_len_option,
)
from dicore_agents.policies.spaces import discrete_options, expect_ends, team_options
from dicore_plugins.policies import (
    DQNCollectConfig,
    DQNConfig,
    DQNLearnConfig,
    builds,
    unused_options,
)

__all__ = [
    "CollaQConfig", "IndependentQConfig", "QMIXConfig", "QPLEXConfig", "QTRANConfig",
    "TeamQCollectConfig", "TeamQConfig", "TeamQLearnConfig", "VDNConfig", "WQMIXConfig",
]  # fmt: skip

_HOME = "dicore_agents.policies.value"


@frozen(kw_only=True)
class TeamQCollectConfig(DQNCollectConfig):
    """Options of collecting."""

    unroll_len: int = unroll_len_option()
    burn_in: int = burn_in_option()


@frozen(kw_only=True)
class TeamQLearnConfig(DQNLearnConfig):
    """Options of learning that the algorithms share."""

    reward_scale: float = option(
        1.0, "factor of rewards, and so of all values; raise it where rewards are small and rare:"
        " values then stand out from what a new network says, and updates move them by less", gt=0,
        le=1e6,
    )  # fmt: skip

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that have no effect."""
        if self.criterion != "huber":
            yield from unused_options(self, "criterion=huber", "huber_delta")


@frozen(kw_only=True)
class TeamQConfig(DQNConfig):
    """Options that the algorithms share."""

    requires: ClassVar[Any] = {**DQNConfig.requires, "collect.unroll_len": None}

    fixed_by_spaces: ClassVar[tuple[str, ...]] = (
        *DQNConfig.fixed_by_spaces,
        *("model.agents", "model.state_shape"),
    )
    reduces: ClassVar[bool] = False
    model: ComponentConfig = component("model", default="agent_q", help="Q network of the agents")
    learn: TeamQLearnConfig = section(TeamQLearnConfig)
    collect: TeamQCollectConfig = section(TeamQCollectConfig)

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model from the spaces.

        Raises:
            ConfigError: the environment has one agent, or spaces that do not fit.
        """
        name, has_state = self.type or self._name, "state_shape" in (self.model or ())
        found = team_options(spec, name, state=has_state)
        expect_ends(self, spec)
        return {**found, **discrete_options(spec, name)}

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from self.common_problems()
        yield from memory_problems(self, self._name)


@frozen(kw_only=True)
class IndependentQConfig(TeamQConfig):
    """Independent Q-learning: each agent learns from its own reward (Tan 1993)."""

    build = builds(f"{_HOME}.independent:IndependentQPolicy")


@frozen(kw_only=True)
class VDNConfig(TeamQConfig):
    """VDN: the value of a team is the sum of its agents' values (Sunehag et al. 2018)."""

    model: ComponentConfig = component("model", default="vdn", help="Q networks, added up")

    build = builds(f"{_HOME}.mixed:MixedQPolicy")


@frozen(kw_only=True)
class QMIXConfig(TeamQConfig):
    """QMIX: the value of a team grows with each agent's value (Rashid et al. 2018)."""

    model: ComponentConfig = component("model", default="qmix", help="Q networks and their mixer")

    build = builds(f"{_HOME}.mixed:MixedQPolicy")


@frozen(kw_only=True)
class CollaQLearnConfig(TeamQLearnConfig):
    """Options of learning."""

    mara_weight: float = option(
        1.0, "weight of the loss by which working together adds nothing where an agent sees no"
        " others", ge=0,
    )  # fmt: skip


@frozen(kw_only=True)
class CollaQConfig(TeamQConfig):
    """COLLAQ: what agents earn alone, and what they add for each other (Zhang et al. 2020)."""

    model: ComponentConfig = component("model", default="collaq", help="Q networks and their mixer")
    learn: CollaQLearnConfig = section(CollaQLearnConfig)

    build = builds(f"{_HOME}.collaq:CollaQPolicy")

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model from the spaces.

        Raises:
            ConfigError: the spaces do not fit, or `model.others` is missing or not a part of them.
        """
        found = super().bind(spec)
        width: Any = found["model.obs_shape"]
        others: Any = ((0, 0),) if self.model is None else self.model.get("others", ((0, 0),))
        told = sum(after - first for first, after in others)
        if not others or any(first < 0 or after > width for first, after in others):
            raise ConfigError(
                "policy.model.others: name the numbers that tell of other agents, of the"
                f" {width} that an agent sees; got {[[*each] for each in others]}",
                hint="for example [[4, 8], [8, 12]]; where there are none, choose qmix",
            )
        if told == width:
            raise ConfigError(
                f"policy.model.others: all {width} numbers that an agent sees tell of others",
                hint="leave out those of its own",
            )
        return found


@frozen(kw_only=True)
class QPLEXConfig(TeamQConfig):
    """QPLEX: duplex dueling values of a team (Wang et al. 2021)."""

    model: ComponentConfig = component("model", default="qplex", help="Q networks and their mixer")

    build = builds(f"{_HOME}.mixed:MixedQPolicy")


@frozen(kw_only=True)
class WQMIXLearnConfig(TeamQLearnConfig):
    """Options of learning."""

    weighting: Literal["central", "optimistic"] = option(
        "central",
        "errors that count in full: central (CW): of actions that seem better than the best one;"
        " optimistic (OW): of values that are too low",
    )
    alpha: float = option(0.5, "weight of the other errors", ge=0, le=1)


@frozen(kw_only=True)
class WQMIXConfig(TeamQConfig):
    """Weighted QMIX: errors count by how good the actions are (Rashid et al. 2020)."""

    model: ComponentConfig = component("model", default="wqmix", help="Q networks and both mixers")
    learn: WQMIXLearnConfig = section(WQMIXLearnConfig)

    build = builds(f"{_HOME}.wqmix:WQMIXPolicy")


@frozen(kw_only=True)
class QTRANLearnConfig(TeamQLearnConfig):
    """Options of learning."""

    opt_weight: float = option(1.0, "weight of the loss of the best actions", ge=0)
    nopt_weight: float = option(1.0, "weight of the loss of the other actions", ge=0)


@frozen(kw_only=True)
class QTRANConfig(TeamQConfig):
    """QTRAN: agents agree with a value of the team about the best actions (Son et al. 2019)."""

    model: ComponentConfig = component("model", default="qtran", help="Q networks and team values")
    learn: QTRANLearnConfig = section(QTRANLearnConfig)

    build = builds(f"{_HOME}.qtran:QTRANPolicy")
