"""Options of FastTD3."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dicore.config import ComponentConfig, OtherConfig, component, frozen, option, section
from dicore_plugins.policies import (
    ContinuousQCollectConfig,
    ContinuousQPolicyConfig,
    TD3LearnConfig,
    builds,
)

__all__ = ["FastTD3CollectConfig", "FastTD3Config", "FastTD3LearnConfig"]

_MODEL: dict[str, Any] = {
    "type": "d4pg",
    "num_critics": 2,
    "n_atom": 101,
    "v_min": -250.0,
    "v_max": 250.0,
    "actor_hidden_size_list": (512, 256, 128),
    "critic_hidden_size_list": (1024, 512, 256),
    "obs_norm": True,
}


@frozen(kw_only=True)
class FastTD3LearnConfig(TD3LearnConfig):
    """Options of learning."""

    batch_size: int = option(32_768, "samples per gradient update; fewer on a CPU", ge=1)
    update_per_collect: int | None = option(
        2, "gradient updates after each collect, which is a step of all environments", ge=1
    )
    update_per_step: float | None = option(
        None, "gradient updates per collected env step, instead of update_per_collect", gt=0
    )
    learning_rate: float = option(3e-4, "learning rate of actor and critics", gt=0, lt=float("inf"))
    optimizer: ComponentConfig = component(
        "optimizer",
        default={"type": "adamw", "weight_decay": 0.1},
        help="updates the parameters from their gradients",
    )
    target_theta: float = option(
        0.1, "soft-update coefficient tau of the target Q networks (Polyak averaging)", gt=0, le=1
    )
    target_noise: float = option(
        0.001, "standard deviation of the noise of target actions (smoothing); 0: none", ge=0
    )
    clipped: bool = option(
        True,
        "targets are the distribution with the lower mean, and the actor maximizes the lower Q"
        " value (clipped double Q learning); False: own targets, and the mean",
    )


@frozen(kw_only=True)
class FastTD3CollectConfig(ContinuousQCollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(
        128, "samples per collect: one step of each environment", ge=1,
        follows="env.collector_env_num",
    )  # fmt: skip
    random_collect_size: int = option(
        1_280, "samples collected with random actions before training", ge=0
    )
    noise_min: float = option(
        0.001, "lowest standard deviation of the noise of an environment", ge=0
    )
    noise_max: float = option(
        0.4, "highest standard deviation of the noise; it is drawn for each episode", ge=0
    )


@frozen(kw_only=True)
class FastTD3Config(ContinuousQPolicyConfig):
    """TD3 with many environments, large batches and distributions of returns (Seo et al. 2025)."""

    model: ComponentConfig = component(
        "model", default=_MODEL, help="actor and networks of distributions"
    )
    learn: FastTD3LearnConfig = section(FastTD3LearnConfig)
    collect: FastTD3CollectConfig = section(FastTD3CollectConfig)
    other: OtherConfig = section(OtherConfig, replay_buffer={"replay_buffer_size": 1_000_000})

    build = builds("dicore_contrib.policies.fast_td3:FastTD3Policy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()
        collect, learn, model = self.collect, self.learn, self.model
        if collect.noise_min > collect.noise_max:
            yield "collect.noise_min", f"must be <= noise_max = {collect.noise_max}"
        if model is not None and model.get("stochastic"):
            yield "model.stochastic", "the actor is deterministic; leave it out"
        if model is not None and model.get("num_critics") == 1 and learn.clipped:
            yield "learn.clipped", "needs model.num_critics of 2 or more; set it to False"
