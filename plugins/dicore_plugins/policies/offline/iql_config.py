"""Options of IQL."""

from __future__ import annotations

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.offline.awac_config import AdvantageLearnConfig, AWACConfig


@frozen(kw_only=True)
class IQLLearnConfig(AdvantageLearnConfig):
    """Options of learning."""

    temperature: float = option(
        0.33,
        "advantage at which an action counts e times as much (1 / beta of the paper); raise it with"
        " the size of the returns",
        gt=0,
    )
    expectile: float = option(
        0.7,
        "which Q value of a state its value is: 0.5: the mean; nearer to 1: the best of the data",
        gt=0,
        lt=1,
    )


@frozen(kw_only=True)
class IQLConfig(AWACConfig):
    """Q-learning without values of unseen actions, from a dataset (Kostrikov et al. 2021)."""

    model: ComponentConfig = component(
        "model", default="iql", help="actor, Q networks and value network"
    )
    learn: IQLLearnConfig = section(IQLLearnConfig)

    build = builds("dicore_plugins.policies.offline.iql:IQLPolicy")


@frozen(kw_only=True)
class XQLLearnConfig(AdvantageLearnConfig):
    """Options of learning."""

    temperature: float = option(
        0.33, "advantage at which an action counts e times as much (1 / alpha of the paper)", gt=0
    )
    beta: float = option(
        1.0,
        "temperature of the soft maximum that values are; near 0: the best action of the data;"
        " raise it with the size of the returns, or if values diverge",
        gt=0,
    )
    max_gap: float = option(
        7.0, "largest (Q - V) / beta that counts; lower it if the loss explodes", gt=0
    )


@frozen(kw_only=True)
class XQLConfig(AWACConfig):
    """Q-learning with soft maxima of the recorded actions by Gumbel regression (Garg 2023)."""

    model: ComponentConfig = component(
        "model", default="iql", help="actor, Q networks and value network"
    )
    learn: XQLLearnConfig = section(XQLLearnConfig)

    build = builds("dicore_plugins.policies.offline.xql:XQLPolicy")
