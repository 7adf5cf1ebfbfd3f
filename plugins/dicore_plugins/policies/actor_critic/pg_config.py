"""Options of REINFORCE."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.actor_critic.base_config import (
    ActorCriticCollectConfig,
    ActorCriticLearnConfig,
    ActorCriticPolicyConfig,
)
from dicore_plugins.policies.required import Required


@frozen(kw_only=True)
class PGLearnConfig(ActorCriticLearnConfig):
    """Options of learning."""

    learning_rate: float = option(
        3e-3, "learning rate; learning_rate_end < 1 lets it fall", gt=0, lt=float("inf")
    )
    adv_norm: bool = option(
        True, "normalise the returns (minus baseline) of each update to mean 0 and deviation 1"
    )
    baseline: bool = option(
        True, "subtract the learned value from the return: less variance, no bias"
    )


@frozen(kw_only=True)
class PGCollectConfig(ActorCriticCollectConfig):
    """Options of collecting."""

    n_episode: int | None = option(8, "complete episodes per collect", ge=1)
    gae_lambda: float = option(
        1.0, "lambda of generalized advantages; 1: returns of whole episodes", ge=0, le=1
    )


@frozen(kw_only=True)
class PGConfig(ActorCriticPolicyConfig):
    """REINFORCE on whole episodes, with a learned baseline (Williams 1992)."""

    requires: ClassVar[Required] = {
        "collect.n_sample": (None, "collects whole episodes; use collect.n_episode")
    }

    learn: PGLearnConfig = section(PGLearnConfig)
    collect: PGCollectConfig = section(PGCollectConfig)

    build = builds("dicore_plugins.policies.actor_critic.pg:PGPolicy")
