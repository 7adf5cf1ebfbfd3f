"""Options of TD3+BC."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.continuous.td3_config import TD3Config, TD3LearnConfig
from dicore_plugins.policies.offline import options
from dicore_plugins.policies.required import Required


@frozen(kw_only=True)
class TD3BCLearnConfig(TD3LearnConfig):
    """Options of learning."""

    learning_rate: float = option(3e-4, "learning rate of actor and critics", gt=0, lt=float("inf"))
    update_per_collect: int | None = options.update_per_collect()
    update_per_step: float | None = options.update_per_step()
    alpha: float = option(
        2.5,
        "weight of the Q values against imitation; lower it for narrow data; 0: behavioural"
        " cloning",
        ge=0,
    )


@frozen(kw_only=True)
class TD3BCConfig(TD3Config):
    """TD3 from a dataset, near the recorded actions (Fujimoto and Gu 2021, arXiv:2106.06860)."""

    offline: ClassVar[bool] = True

    model: ComponentConfig = component(
        "model",
        default={"type": "qac", "stochastic": False, "obs_norm": True},
        help="actor and Q networks",
    )
    learn: TD3BCLearnConfig = section(TD3BCLearnConfig)

    build = builds("dicore_plugins.policies.offline.td3_bc:TD3BCPolicy")


@frozen(kw_only=True)
class ReBRACLearnConfig(TD3LearnConfig):
    """Options of learning."""

    batch_size: int = option(1024, "samples per gradient update", ge=1)
    update_per_collect: int | None = options.update_per_collect()
    update_per_step: float | None = options.update_per_step()
    actor_penalty: float = option(
        0.1, "weight of the distance to the recorded actions; raise it for narrow data", ge=0
    )
    critic_penalty: float = option(
        0.01, "weight of that distance in the target of the Q networks; 0: as TD3+BC", ge=0
    )


@frozen(kw_only=True)
class ReBRACConfig(TD3Config):
    """TD3 from a dataset with penalties of actor and critic apart (Tarasov et al. 2023)."""

    offline: ClassVar[bool] = True
    derived: ClassVar[tuple[str, ...]] = ("next_action",)
    requires: ClassVar[Required] = {
        "nstep": (1, "knows the recorded action after one step; expected 1")
    }

    model: ComponentConfig = component(
        "model",
        default={"type": "qac", "stochastic": False, "critic_layer_norm": True},
        help="actor and Q networks",
    )
    learn: ReBRACLearnConfig = section(ReBRACLearnConfig)

    build = builds("dicore_plugins.policies.offline.rebrac:ReBRACPolicy")
