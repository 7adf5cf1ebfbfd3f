"""Options of behavioural cloning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore.config.sections import LearnConfig
from dicore_plugins.lazy import builds
from dicore_plugins.policies.actor_critic.base_config import ActorCriticPolicyConfig
from dicore_plugins.policies.required import SINGLE_STEPS, Required


@frozen(kw_only=True)
class CloningLearnConfig(LearnConfig):
    """Options of learning the actions of demonstrations."""

    criterion: Literal["log_prob", "mse", "l1"] = option(
        "log_prob",
        "loss: minus the log-probability of the action shown; mse, l1: distance of the mean to it,"
        " for continuous actions",
    )
    max_grad_norm: float | None = option(
        None, "maximum gradient norm; larger gradients are scaled down; None: off", gt=0
    )
    optimizer: ComponentConfig = component(
        "optimizer", default="adam", help="updates the parameters from their gradients"
    )


@frozen(kw_only=True)
class BCLearnConfig(CloningLearnConfig):
    """Options of learning."""

    distill_weight: float = option(
        0.0,
        "weight of the KL divergence to the expert's probabilities, which the data has as `logit`"
        " (or `mean` and `log_std`); the actions shown have the rest",
        ge=0,
        le=1,
    )
    distill_temperature: float = option(
        1.0,
        "temperature of the expert's logits; lower it, for example to 0.01, if they are Q values",
        gt=0,
    )


@frozen(kw_only=True)
class CloningConfig(ActorCriticPolicyConfig):
    """Options of policies that learn the actions of demonstrations."""

    requires: ClassVar[Required] = {
        "on_policy": (False, "learns from demonstrations; set it to False"),
        "learn.ignore_done": (False, "learns without values; leave it out"),
        **SINGLE_STEPS,
    }

    on_policy: bool = option(False, "False: learns from demonstrations")
    model: ComponentConfig = component(
        "model", default="vac", help="network of actions; values are not used"
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        name, criterion = self.type or "this policy", self.learn.get("criterion", "log_prob")
        yield from self.common_problems()
        if self.discount_factor != type(self)().discount_factor:
            yield "discount_factor", f"{name} learns without rewards; leave it out"
        bound = self.model is not None and self.model.get("continuous") is not None
        if criterion != "log_prob" and bound and not self.model.get("continuous"):
            yield "learn.criterion", f"{criterion} is for continuous actions; set log_prob"


@frozen(kw_only=True)
class BCConfig(CloningConfig):
    """Behavioural cloning: learns the actions of demonstrations as labels (Pomerleau 1991)."""

    offline: ClassVar[bool] = True

    learn: BCLearnConfig = section(BCLearnConfig)  # type: ignore[assignment] # replaces the base's options

    build = builds("dicore_plugins.policies.imitation.bc:BCPolicy")
