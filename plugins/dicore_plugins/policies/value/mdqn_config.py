"""Options of Munchausen DQN."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.required import NO_DOUBLE, Required
from dicore_plugins.policies.value.dqn_config import DQNConfig, DQNLearnConfig


@frozen(kw_only=True)
class MDQNLearnConfig(DQNLearnConfig):
    """Options of learning."""

    double: bool = option(False, "no effect: the target has no greedy action; keep it False")
    temperature: float = option(
        0.03, "entropy temperature tau; the policy of the target is softmax(Q / tau)", gt=0
    )
    munchausen_alpha: float = option(
        0.9, "factor of the log policy that is added to the reward; 0: soft DQN", ge=0, le=1
    )
    munchausen_lowest: float = option(-1.0, "lower bound of tau log pi in the reward", le=0)


@frozen(kw_only=True)
class MDQNConfig(DQNConfig):
    """DQN that adds its own log policy to the reward (Vieillard et al. 2020)."""

    requires: ClassVar[Required] = {
        "nstep": (1, "adds the log policy to each single reward; set it to 1"),
        **NO_DOUBLE,
    }

    learn: MDQNLearnConfig = section(MDQNLearnConfig)

    build = builds("dicore_plugins.policies.value.mdqn:MDQNPolicy")
