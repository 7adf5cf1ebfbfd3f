"""Options of SQN."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.required import NO_DOUBLE, Required
from dicore_plugins.policies.value.dqn_config import (
    NO_EPS,
    DQNConfig,
    DQNLearnConfig,
    DQNOtherConfig,
)


@frozen(kw_only=True)
class SQNLearnConfig(DQNLearnConfig):
    """Options of learning."""

    double: bool = option(False, "no effect: the target has no greedy action; keep it False")
    auto_temperature: bool = option(
        True, "learn the temperature, so that the entropy stays near target_entropy"
    )
    target_entropy: float | None = option(
        None,
        "entropy of the policy per head; None: a fifth of the largest, the log of the number of"
        " actions (of those that a mask allows)",
        ge=0,
    )


@frozen(kw_only=True)
class SQNConfig(DQNConfig):
    """Soft Q-learning with two Q networks and a learned temperature (Haarnoja et al. 2017)."""

    requires: ClassVar[Required] = NO_DOUBLE

    model: ComponentConfig = component(
        "model", default="sqn", help="two Q networks and a temperature"
    )
    learn: SQNLearnConfig = section(SQNLearnConfig)
    other: DQNOtherConfig = section(DQNOtherConfig, eps=NO_EPS)

    build = builds("dicore_plugins.policies.value.sqn:SQNPolicy")
