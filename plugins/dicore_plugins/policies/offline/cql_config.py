"""Options of CQL, for continuous and for discrete actions."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.continuous.sac_config import SACConfig, SACLearnConfig
from dicore_plugins.policies.offline import options
from dicore_plugins.policies.value.dqn_config import DQNConfig, DQNLearnConfig


@frozen(kw_only=True)
class CQLLearnConfig(SACLearnConfig):
    """Options of learning."""

    update_per_collect: int | None = options.update_per_collect()
    update_per_step: float | None = options.update_per_step()
    conservative_weight: float = option(
        5.0,
        "weight of the term that lowers the values of actions that the data lacks; raise it for"
        " narrow data",
        ge=0,
    )
    n_action: int = option(
        10,
        "actions sampled for that term, of each of: uniform, policy, policy in the next state",
        ge=1,
    )
    soft_target: bool = option(
        False, "subtract alpha log pi from the target, as SAC does; False: as in the paper's code"
    )


@frozen(kw_only=True)
class CQLConfig(SACConfig):
    """Conservative Q-learning from a dataset, for continuous actions (Kumar et al. 2020)."""

    offline: ClassVar[bool] = True

    learn: CQLLearnConfig = section(CQLLearnConfig)

    build = builds("dicore_plugins.policies.offline.cql:CQLPolicy")


@frozen(kw_only=True)
class CalQLConfig(CQLConfig):
    """CQL with values not below the recorded returns, to be fine-tuned (Nakamoto et al. 2023)."""

    derived: ClassVar[tuple[str, ...]] = ("discounted_return",)

    build = builds("dicore_plugins.policies.offline.cal_ql:CalQLPolicy")


@frozen(kw_only=True)
class DiscreteCQLLearnConfig(DQNLearnConfig):
    """Options of learning."""

    update_per_collect: int | None = options.update_per_collect()
    conservative_weight: float = option(
        1.0,
        "weight of the term that lowers the values of actions that the data lacks; raise it for"
        " narrow data",
        ge=0,
    )


@frozen(kw_only=True)
class DiscreteCQLConfig(DQNConfig):
    """Conservative Q-learning from a dataset, for discrete actions (Kumar et al. 2020)."""

    offline: ClassVar[bool] = True

    learn: DiscreteCQLLearnConfig = section(DiscreteCQLLearnConfig)

    build = builds("dicore_plugins.policies.offline.discrete_cql:DiscreteCQLPolicy")
