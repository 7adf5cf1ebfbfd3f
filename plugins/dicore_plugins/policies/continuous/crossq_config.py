"""Options of CrossQ."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.continuous.sac_config import SACConfig, SACLearnConfig
from dicore_plugins.policies.required import Required


@frozen(kw_only=True)
class CrossQLearnConfig(SACLearnConfig):
    """Options of learning."""

    batch_size: int = option(256, "samples per gradient update; their statistics normalise", ge=2)
    learning_rate: float = option(1e-3, "learning rate of actor and critics", gt=0, lt=float("inf"))
    actor_update_freq: int = option(3, "critic updates between updates of the actor", ge=1)
    target_theta: float = option(
        0.005, "no effect: there is no target network; leave it unset", gt=0, le=1
    )
    optimizer: ComponentConfig = component(
        "optimizer",
        default={"type": "adam", "betas": [0.5, 0.999]},
        help="updates the parameters from their gradients",
    )


@frozen(kw_only=True)
class CrossQConfig(SACConfig):
    """SAC with batch-renormalised critics and without target networks (Bhatt et al. 2024)."""

    requires: ClassVar[Required] = {
        "learn.target_theta": (0.005, "has no target network; remove it")
    }

    model: ComponentConfig = component("model", default="crossq", help="actor and Q networks")
    learn: CrossQLearnConfig = section(CrossQLearnConfig)

    build = builds("dicore_plugins.policies.continuous.crossq:CrossQPolicy")
