"""Options of PQN."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore.config.sections import LearnConfig
from dicore.interfaces.env import EnvSpec
from dicore_plugins.lazy import builds
from dicore_plugins.policies.actor_critic.base_config import (
    ActorCriticCollectConfig,
    ActorCriticPolicyConfig,
)
from dicore_plugins.policies.required import SAMPLES, Required
from dicore_plugins.policies.value.dqn_config import DQNConfig, DQNOtherConfig


@frozen(kw_only=True)
class PQNLearnConfig(LearnConfig):
    """Options of learning."""

    batch_size: int | None = option(  # type: ignore[assignment] # also None
        128, "samples per gradient update; None: all of a collect", ge=1
    )
    epoch_per_collect: int = option(
        2, "passes over the samples of a collect; raise for sample efficiency", ge=1
    )
    learning_rate: float = option(
        1e-3, "learning rate; learning_rate_end < 1 lets it fall", gt=0, lt=float("inf")
    )
    learning_rate_end: float = option(
        1.0, "final learning rate as a fraction of learning_rate; 1: constant", ge=0, le=1
    )
    anneal: int = option(
        100_000,
        "length of the linear decay of learning_rate to the final value",
        ge=1,
        unit="env steps",
        follows="pipeline.max_env_step",
    )
    td_lambda: float = option(
        0.65, "lambda of the returns; lower: less variance, more bias by the values", ge=0, le=1
    )
    max_grad_norm: float | None = option(
        10.0, "maximum gradient norm; larger gradients are scaled down; None: off", gt=0
    )
    optimizer: ComponentConfig = component(
        "optimizer", default="adam", help="updates the parameters from their gradients"
    )


@frozen(kw_only=True)
class PQNConfig(ActorCriticPolicyConfig):
    """Parallel Q-learning without a replay buffer or target network (Gallici et al. 2024)."""

    requires: ClassVar[Required] = SAMPLES

    model: ComponentConfig = component(
        "model",
        default={"type": "dqn", "layer_norm": True, "initial_bias": "uniform"},
        help="Q network; its layers should be normalised",
    )
    learn: PQNLearnConfig = section(PQNLearnConfig)  # type: ignore[assignment] # replaces the base's options
    collect: ActorCriticCollectConfig = section(ActorCriticCollectConfig, n_sample=512)
    other: DQNOtherConfig = section(DQNOtherConfig)

    build = builds("dicore_plugins.policies.value.pqn:PQNPolicy")

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model from the spaces; see `DQNConfig.bind`."""
        return DQNConfig.bind(self, spec)  # type: ignore[arg-type]
