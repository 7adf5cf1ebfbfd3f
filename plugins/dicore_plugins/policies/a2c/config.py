"""Options of A2C."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from dicore.config.schema import component, frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.actor_critic.config import (
    ActorCriticCollectConfig,
    ActorCriticLearnConfig,
    ActorCriticPolicyConfig,
)


@frozen(kw_only=True)
class A2CLearnConfig(ActorCriticLearnConfig):
    """Options of learning."""

    learning_rate: float = option(
        7e-4, "learning rate; lower it if training is unstable", gt=0, lt=float("inf")
    )
    optimizer: Any = component(
        "optimizer",
        default={"type": "rmsprop", "eps": 1e-5},
        help="updates the parameters from their gradients",
    )


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

    learn: A2CLearnConfig = section(A2CLearnConfig)
    collect: A2CCollectConfig = section(A2CCollectConfig)

    recurrent: ClassVar[bool] = True

    build = builds("dicore_plugins.policies.a2c.policy:A2CPolicy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from ActorCriticPolicyConfig.check(self)
        if self.collect.n_episode is not None:
            yield "collect.n_episode", "a2c collects samples; use collect.n_sample"
