"""Options of ACER."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_plugins.lazy import builds
from dicore_plugins.policies.actor_critic.base_config import ActorCriticLearnConfig
from dicore_plugins.policies.actor_critic.impala_config import IMPALAConfig
from dicore_plugins.policies.required import Required


@frozen(kw_only=True)
class ACERLearnConfig(ActorCriticLearnConfig):
    """Options of learning."""

    batch_size: int | None = option(16, "sequences per gradient update", ge=1)
    update_per_collect: int | None = option(4, "gradient updates after each collect", ge=1)
    learning_rate: float = option(
        7e-4, "learning rate; lower it if training is unstable", gt=0, lt=float("inf")
    )
    entropy_weight: float = option(
        0.001, "weight of the entropy bonus; raise it if exploration ends too early", ge=0
    )
    weight_clip: float = option(
        10.0, "largest importance weight; what is cut off is corrected by the Q values", gt=0
    )
    retrace_lambda: float = option(
        1.0, "lambda of Retrace; lower: less variance, more bias by the Q values", ge=0, le=1
    )
    trust_region: float | None = option(
        1.0, "largest change of the KL divergence to the average policy; None: off", gt=0
    )
    average_theta: float = option(0.01, "soft-update coefficient of the average policy", gt=0, le=1)


@frozen(kw_only=True)
class ACERConfig(IMPALAConfig):
    """ACER: actor-critic with replay, Retrace and a trust region (Wang et al. 2017)."""

    reduces: ClassVar[bool] = False
    requires: ClassVar[Required] = {
        "learn.adv_norm": (False, "bounds its gradient by learn.trust_region; set it to False")
    }

    model: ComponentConfig = component(
        "model", default="acer", help="network of actions and Q values"
    )
    learn: ACERLearnConfig = section(ACERLearnConfig)  # type: ignore[assignment] # replaces the base's options

    build = builds("dicore_plugins.policies.actor_critic.acer:ACERPolicy")

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model from the spaces.

        Raises:
            ConfigError: the actions are not a single discrete choice.
        """
        found = super().bind(spec)
        several = not isinstance(found["model.action_shape"], int) or found.get("hybrid")
        if several or found["model.continuous"]:
            from dicore_plugins.policies.fitting import hint_for

            raise ConfigError(
                f"policy.type: 'acer' needs one discrete action; this env has {spec.action}",
                hint=hint_for(spec.action),
            )
        return found
