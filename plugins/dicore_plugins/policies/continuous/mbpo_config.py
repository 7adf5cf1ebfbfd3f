"""Options of MBPO."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore.config.sections import OtherConfig
from dicore_plugins.policies.continuous.sac_config import SACConfig, SACLearnConfig
from dicore_plugins.policies.required import Required


@frozen(kw_only=True)
class MBPOOtherConfig(OtherConfig):
    """Options of simulated samples."""

    real_share: float = option(
        0.05, "share of a batch that is collected; the rest is simulated", ge=0, lt=1
    )
    rollout_batch_size: int = option(
        10_000, "rollouts that begin after each training of the world model", ge=1
    )
    rollout_length: int = option(
        1, "steps of a rollout; raise it if the model is exact over several steps", ge=1
    )
    rollout_length_end: int | None = option(
        None, "final steps of a rollout; None: they do not grow", ge=1
    )
    rollout_length_anneal: tuple[int, int] = option(
        (0, 10_000), "env steps between which the rollouts grow", ge=0
    )
    model_buffer_size: int = option(
        40_000, "capacity for simulated samples; then the oldest are overwritten", ge=1
    )


@frozen(kw_only=True)
class MBPOConfig(SACConfig):
    """SAC on simulated samples of a learned world model (Janner et al. 2019)."""

    requires: ClassVar[Required] = {
        "nstep": (1, "simulates single steps; expected 1"),
        "priority": (False, "draws simulated samples uniformly; expected False"),
        "model.gsde": (False, "keeps no noise per environment in its rollouts; set it to False"),
    }

    world_model: ComponentConfig = component(
        "world_model", default="ensemble", help="learns the dynamics of the environment"
    )
    learn: SACLearnConfig = section(
        SACLearnConfig,
        update_per_step=option(
            20.0, "gradient updates per collected env step; the world model allows many", gt=0
        ),
    )
    other: MBPOOtherConfig = section(MBPOOtherConfig)
