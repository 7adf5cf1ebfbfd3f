"""Options of CrossQ."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.continuous.redq_config import REDQConfig, REDQLearnConfig
from dicore_plugins.policies.continuous.sac_config import SACCollectConfig
from dicore_plugins.policies.required import Required


@frozen(kw_only=True)
class CrossQConfig(REDQConfig):
    """SAC with batch-renormalised critics and without target networks (Bhatt et al. 2024)."""

    requires: ClassVar[Required] = {
        "learn.target_theta": (0.005, "has no target network; remove it")
    }

    model: ComponentConfig = component("model", default="crossq", help="actor and Q networks")
    learn: REDQLearnConfig = section(
        REDQLearnConfig,
        batch_size=option(256, "samples per gradient update; their statistics normalise", ge=2),
        update_per_step=1.0,
        learning_rate=1e-3,
        target_critics=None,
        actor_value="min",
        actor_update_freq=3,
        target_theta=option(
            0.005, "no effect: there is no target network; leave it unset", gt=0, le=1
        ),
        optimizer={"type": "adam", "betas": [0.5, 0.999]},
    )
    collect: SACCollectConfig = section(SACCollectConfig)

    build = builds("dicore_plugins.policies.continuous.crossq:CrossQPolicy")
