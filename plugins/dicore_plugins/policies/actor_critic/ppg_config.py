"""Options of phasic policy gradient."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.actor_critic.ppo_config import PPOConfig, PPOLearnConfig


@frozen(kw_only=True)
class PPGLearnConfig(PPOLearnConfig):
    """Options of learning."""

    epoch_per_collect: int = option(
        1, "passes over the samples of a collect; raise for sample efficiency", ge=1
    )
    collect_per_phase: int = option(
        32, "collects between two auxiliary phases (N_pi); their samples are kept", ge=1
    )
    auxiliary_epoch: int = option(
        6, "passes over the kept samples in an auxiliary phase (E_aux)", ge=1
    )
    auxiliary_batch_size: int | None = option(
        256, "samples per gradient update of an auxiliary phase; None: all", ge=1
    )
    clone_weight: float = option(
        1.0, "weight of the KL divergence that keeps the policy in an auxiliary phase", ge=0
    )


@frozen(kw_only=True)
class PPGConfig(PPOConfig):
    """Phasic policy gradient: PPO with auxiliary phases that learn values (Cobbe et al. 2020)."""

    recurrent: ClassVar[bool] = False

    model: ComponentConfig = component(
        "model", default="ppg", help="network with an auxiliary value"
    )
    learn: PPGLearnConfig = section(PPGLearnConfig)

    build = builds("dicore_plugins.policies.actor_critic.ppg:PPGPolicy")
