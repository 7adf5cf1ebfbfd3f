"""Options of AWAC."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.continuous.base_config import (
    ContinuousQLearnConfig,
    ContinuousQPolicyConfig,
)
from dicore_plugins.policies.offline import options


@frozen(kw_only=True)
class AdvantageLearnConfig(ContinuousQLearnConfig):
    """Options of learning by weights of the recorded actions."""

    update_per_collect: int | None = options.update_per_collect()
    update_per_step: float | None = options.update_per_step()
    temperature: float = option(
        1.0,
        "advantage at which an action counts e times as much; lower it for a greedier policy, raise"
        " it with the size of the returns",
        gt=0,
    )
    max_weight: float = option(100.0, "largest weight of an action", gt=0)


@frozen(kw_only=True)
class AWACConfig(ContinuousQPolicyConfig):
    """Actor-critic from a dataset that imitates good actions (Nair et al. 2020)."""

    offline: ClassVar[bool] = True

    model: ComponentConfig = component(
        "model",
        default={"type": "qac", "fixed_std": True, "log_std_init": -0.5},
        help="actor and Q networks",
    )
    learn: AdvantageLearnConfig = section(AdvantageLearnConfig)

    build = builds("dicore_plugins.policies.offline.awac:AWACPolicy")
