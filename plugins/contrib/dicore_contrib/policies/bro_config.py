"""Options of BRO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import ClassVar

from dicore.config import ComponentConfig, component, frozen, option, section
from dicore_plugins.policies import (
    SACCollectConfig,
    SACConfig,
    SACLearnConfig,
    builds,
)

__all__ = ["BROCollectConfig", "BROConfig", "BROLearnConfig"]

_RESETS = (150_000, 500_000, 2_500_000, 5_000_000, 7_500_000, 10_000_000)


@frozen(kw_only=True)
class BROLearnConfig(SACLearnConfig):
    """Options of learning."""

    batch_size: int = option(128, "samples per gradient update", ge=1)
    update_per_step: float | None = option(
        10.0, "gradient updates per collected env step; 2: BRO (fast), with other resets", gt=0
    )
    optimizer: ComponentConfig = component(
        "optimizer",
        default={"type": "adamw", "weight_decay": 1e-4},
        help="updates the parameters from their gradients",
    )
    target_entropy: float | None = option(
        None, "entropy that the learned temperature keeps; None: minus half of the action values"
    )
    resets: tuple[int, ...] = option(
        _RESETS, "gradient updates after which all networks begin anew; (): never", ge=1
    )
    optimism: float = option(
        1.0, "first weight of the difference of the Q networks in exploring", gt=5e-5, lt=1_800
    )
    regularizer: float = option(
        0.25, "first weight of the divergence of exploring from the actor", gt=5e-5, lt=1_800
    )
    kl_target: float = option(
        0.05, "divergence per action value that optimism and regularizer are adjusted to", gt=0
    )
    adjust_learning_rate: float = option(
        3e-5, "learning rate of optimism and regularizer", gt=0, lt=float("inf")
    )


@frozen(kw_only=True)
class BROCollectConfig(SACCollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(
        1, "samples per collect: one step of each environment", ge=1,
        follows="env.collector_env_num",
    )  # fmt: skip
    random_collect_size: int = option(
        2_500, "samples collected with random actions before training", ge=0
    )


@frozen(kw_only=True)
class BROConfig(SACConfig):
    """SAC with large normalised Q networks, resets and optimistic exploration (Nauman 2024)."""

    requires: ClassVar[Mapping[str, tuple[object, str]]] = {
        "collect.act_by_numpy": (True, "acts by torch; leave it out"),
        "collect.sde_sample_freq": (32, "has an actor that explores; leave it out"),
    }

    model: ComponentConfig = component(
        "model", default="bro", help="actors and networks of quantiles"
    )
    learn: BROLearnConfig = section(BROLearnConfig)
    collect: BROCollectConfig = section(BROCollectConfig)

    build = builds("dicore_contrib.policies.bro:BROPolicy")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()
        if any(one >= two for one, two in pairwise(self.learn.resets)):
            yield "learn.resets", f"must rise, got {list(self.learn.resets)}"
