"""Options of PPO."""

from __future__ import annotations

from collections.abc import Iterator
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
class ClippedLearnConfig(ActorCriticLearnConfig):
    """Options of the clipped loss."""

    learning_rate: float = option(
        3e-4, "learning rate; learning_rate_end < 1 lets it fall", gt=0, lt=float("inf")
    )
    adv_norm: bool = option(
        True, "normalise the advantages of each minibatch to mean 0 and standard deviation 1"
    )
    clip_ratio: float = option(
        0.2, "bound of the change of an action's probability ratio in one collect", gt=0
    )
    clip_ratio_end: float = option(
        1.0, "final clip_ratio as a fraction of clip_ratio; 1: constant", ge=0, le=1
    )
    dual_clip: float | None = option(
        None, "bound of the ratio where the advantage is negative, e.g. 3; None: off", gt=1
    )
    value_clip: float | None = option(
        None, "bound of the change of a value in one collect; None: off", gt=0, unit="return"
    )


@frozen(kw_only=True)
class PPOLearnConfig(ClippedLearnConfig):
    """Options of learning."""

    batch_size: int | None = option(64, "samples per gradient update; None: all of a collect", ge=1)
    epoch_per_collect: int = option(
        10, "passes over the samples of a collect; raise for sample efficiency", ge=1
    )
    target_kl: float | None = option(
        None, "end the updates of a collect when the approximate KL exceeds it; None: off", gt=0
    )
    recompute_adv: bool = option(
        False, "recompute values and advantages before each pass over the samples"
    )


@frozen(kw_only=True)
class PPOCollectConfig(ActorCriticCollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(
        2048, "samples per collect; use a multiple of env.collector_env_num", ge=1
    )
    gae_lambda: float = option(
        0.95, "lambda of generalized advantages; lower: less variance, more bias", ge=0, le=1
    )


@frozen(kw_only=True)
class PPOConfig(ActorCriticPolicyConfig):
    """PPO with clipped ratios, for discrete and continuous actions (Schulman et al. 2017)."""

    learn: PPOLearnConfig = section(PPOLearnConfig)
    collect: PPOCollectConfig = section(PPOCollectConfig)

    requires: ClassVar[Required] = SAMPLES
    recurrent: ClassVar[bool] = True

    build = builds("dicore_plugins.policies.actor_critic.ppo:PPOPolicy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from ActorCriticPolicyConfig.check(self)
        if self.learn.recompute_adv and self.collect.unroll_len > 1:
            yield "learn.recompute_adv", "not possible with sequences; set it to False"
