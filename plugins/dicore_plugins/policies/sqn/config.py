"""Options of SQN."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dicore.config.schema import component, frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.dqn.config import (
    DQNConfig,
    DQNLearnConfig,
    DQNOtherConfig,
    EpsConfig,
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
class SQNEpsConfig(EpsConfig):
    """Schedule of epsilon; 0 throughout, since the policy is random by its temperature."""

    start: float = option(0.0, "initial epsilon (probability of a random action)", ge=0, le=1)
    end: float = option(0.0, "final epsilon; the temperature explores", ge=0, le=1)


@frozen(kw_only=True)
class SQNOtherConfig(DQNOtherConfig):
    """Options of exploration and replay."""

    eps: SQNEpsConfig = section(SQNEpsConfig)


@frozen(kw_only=True)
class SQNConfig(DQNConfig):
    """Soft Q-learning with two Q networks and a learned temperature (Haarnoja et al. 2017)."""

    model: Any = component("model", default="sqn", help="two Q networks and a temperature")
    learn: SQNLearnConfig = section(SQNLearnConfig)
    other: SQNOtherConfig = section(SQNOtherConfig)

    build = builds("dicore_plugins.policies.sqn.policy:SQNPolicy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()
        if self.learn.double:
            yield "learn.double", "sqn has no greedy action in its target; set it to False"
