"""Options of A2C."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.actor_critic.base_config import (
    ActorCriticCollectConfig,
    ActorCriticLearnConfig,
    ActorCriticPolicyConfig,
)
from dicore_plugins.policies.required import SAMPLES, Required


@frozen(kw_only=True)
class A2CCollectConfig(ActorCriticCollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(
        40, "samples per collect; use a multiple of env.collector_env_num", ge=1
    )
    gae_lambda: float = option(
        1.0, "lambda of generalized advantages; 1: returns minus the value", ge=0, le=1
    )


@frozen(kw_only=True)
class A2CConfig(ActorCriticPolicyConfig):
    """A2C: one update per collect, for discrete and continuous actions (Mnih et al. 2016)."""

    learn: ActorCriticLearnConfig = section(
        ActorCriticLearnConfig, learning_rate=7e-4, optimizer={"type": "rmsprop", "eps": 1e-5}
    )
    collect: A2CCollectConfig = section(A2CCollectConfig)

    requires: ClassVar[Required] = SAMPLES
    recurrent: ClassVar[bool] = True

    build = builds("dicore_plugins.policies.actor_critic.a2c:A2CPolicy")
