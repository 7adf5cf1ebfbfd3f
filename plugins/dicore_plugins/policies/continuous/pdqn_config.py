"""Options of P-DQN, MP-DQN and PA-DDPG."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore.config.sections import PolicyConfig
from dicore.interfaces.env import EnvSpec
from dicore_plugins.lazy import builds
from dicore_plugins.policies.continuous.base_config import (
    ActorQPolicyConfig,
    ContinuousQLearnConfig,
)
from dicore_plugins.policies.continuous.td3_config import TD3CollectConfig
from dicore_plugins.policies.value.dqn_config import DQNOtherConfig


@frozen(kw_only=True)
class HybridQLearnConfig(ContinuousQLearnConfig):
    """Options of learning."""

    learning_rate: float = option(1e-3, "learning rate of the Q network", gt=0, lt=float("inf"))
    actor_learning_rate: float = option(
        1e-4, "learning rate of the actor; keep it below learning_rate", gt=0, lt=float("inf")
    )


@frozen(kw_only=True)
class PDQNLearnConfig(HybridQLearnConfig):
    """Options of learning."""

    double: bool = option(
        True, "double DQN: the online network selects the next action; reduces overestimation"
    )


@frozen(kw_only=True)
class HybridQConfig(ActorQPolicyConfig):
    """Options of off-policy algorithms for a discrete action with bounded arguments."""

    fixed_by_spaces: ClassVar[tuple[str, ...]] = (
        *PolicyConfig.fixed_by_spaces,
        *("model.args_shape", "action_start", "action_low", "action_high"),
    )

    action_start: int = option(0, "lowest discrete action (`Discrete.start`); read from the env")
    action_low: tuple[float, ...] | None = option(
        None, "arguments that -1 of the actor means; read from the env"
    )
    action_high: tuple[float, ...] | None = option(
        None, "arguments that 1 of the actor means; read from the env"
    )
    learn: HybridQLearnConfig = section(HybridQLearnConfig)
    collect: TD3CollectConfig = section(TD3CollectConfig)
    other: DQNOtherConfig = section(DQNOtherConfig)

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model and the range of the arguments from the spaces.

        Raises:
            ConfigError: the actions are not hybrid, or the model does not take the observations.
        """
        from dicore_plugins.models.shapes import hybrid_options

        found = hybrid_options(spec.action, algorithm=self.type or "this policy")
        return {**self.seen(spec), **found}


@frozen(kw_only=True)
class PDQNConfig(HybridQConfig):
    """Q-learning of discrete actions whose arguments an actor selects (Xiong et al. 2018).

    `model.args_mask` makes it MP-DQN (Bester et al. 2019).
    """

    model: ComponentConfig = component(
        "model", default="pdqn", help="actor of the arguments, and Q network"
    )
    learn: PDQNLearnConfig = section(PDQNLearnConfig)

    build = builds("dicore_plugins.policies.continuous.pdqn:PDQNPolicy")
