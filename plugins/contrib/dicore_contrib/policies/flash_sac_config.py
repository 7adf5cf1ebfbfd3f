"""Options of FlashSAC."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dicore.config import ComponentConfig, OtherConfig, component, frozen, option, section
from dicore_plugins.policies import SACCollectConfig, SACConfig, SACLearnConfig, builds

__all__ = ["FlashSACCollectConfig", "FlashSACConfig", "FlashSACLearnConfig"]


@frozen(kw_only=True)
class FlashSACLearnConfig(SACLearnConfig):
    """Options of learning."""

    batch_size: int = option(
        2_048, "samples per gradient update; their statistics normalise; fewer on a CPU", ge=2
    )
    update_per_collect: int | None = option(
        2, "gradient updates after each collect, which is a step of all environments", ge=1
    )
    update_per_step: float | None = option(
        None, "gradient updates per collected env step, instead of update_per_collect", gt=0
    )
    learning_rate_end: float = option(
        0.5, "final learning rate as a fraction of learning_rate; 1: constant", gt=0, le=1
    )
    learning_rate_decay: int = option(
        10_000, "length of the decay of the learning rate, half a cosine", ge=1, unit="updates",
        follows="pipeline.max_train_iter",
    )  # fmt: skip
    target_theta: float = option(
        0.01, "soft-update coefficient tau of the target networks (Polyak averaging)", gt=0, le=1
    )
    alpha: float = option(
        0.01, "temperature (weight of the entropy); with auto_alpha the initial one", gt=0
    )
    target_entropy: float | None = option(
        None, "entropy that the learned temperature keeps; None: that of a Gaussian of deviation"
        " 0.15 for each action value",
    )  # fmt: skip
    actor_update_freq: int = option(
        2, "updates of the Q networks between updates of actor and temperature", ge=1
    )


@frozen(kw_only=True)
class FlashSACCollectConfig(SACCollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(
        1_024, "samples per collect: one step of each environment", ge=1,
        follows="env.collector_env_num",
    )  # fmt: skip
    random_collect_size: int = option(
        10_000, "samples collected with random actions before training", ge=0
    )
    max_noise_steps: int = option(
        16,
        "most env steps for which the noise of actions is kept, which are drawn; 1: new noise for"
        " each",
        ge=1,
        unit="env steps",
    )


@frozen(kw_only=True)
class FlashSACConfig(SACConfig):
    """SAC with many environments, distributions and weights of unit norm (Kim et al. 2026)."""

    requires: ClassVar[Mapping[str, tuple[object, str]]] = {
        "collect.act_by_numpy": (True, "acts by torch; leave it out"),
        "collect.sde_sample_freq": (32, "keeps noise for collect.max_noise_steps; leave it out"),
    }

    model: ComponentConfig = component(
        "model", default="flash_sac", help="actor and networks of distributions"
    )
    reward_model: ComponentConfig | None = component(
        "reward_model",
        default="bounded_reward_norm",
        help="divides rewards so that returns are within the atoms; None: they are by themselves",
        optional=True,
    )
    learn: FlashSACLearnConfig = section(FlashSACLearnConfig)
    collect: FlashSACCollectConfig = section(FlashSACCollectConfig)
    other: OtherConfig = section(OtherConfig, replay_buffer={"replay_buffer_size": 1_000_000})

    build = builds("dicore_contrib.policies.flash_sac:FlashSACPolicy")
