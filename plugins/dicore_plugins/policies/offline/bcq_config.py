"""Options of BCQ, for continuous and for discrete actions."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_plugins.lazy import builds
from dicore_plugins.policies.continuous.base_config import (
    ContinuousQLearnConfig,
    ContinuousQPolicyConfig,
)
from dicore_plugins.policies.offline import options
from dicore_plugins.policies.value.dqn_config import DQNConfig, DQNLearnConfig


@frozen(kw_only=True)
class BCQLearnConfig(ContinuousQLearnConfig):
    """Options of learning."""

    learning_rate: float = option(1e-3, "learning rate of all networks", gt=0, lt=float("inf"))
    update_per_collect: int | None = options.update_per_collect()
    update_per_step: float | None = options.update_per_step()
    n_action: int = option(
        10, "actions sampled per next state, of which targets take the best", ge=1
    )
    minimum_share: float = option(
        0.75,
        "weight of the least Q value in targets, against the largest; raise it if values grow",
        ge=0,
        le=1,
    )


@frozen(kw_only=True)
class BCQConfig(ContinuousQPolicyConfig):
    """Batch-constrained Q-learning from a dataset, continuous actions (Fujimoto et al. 2019)."""

    offline: ClassVar[bool] = True

    model: ComponentConfig = component(
        "model", default="bcq", help="Q networks, autoencoder and actor"
    )
    learn: BCQLearnConfig = section(BCQLearnConfig)

    build = builds("dicore_plugins.policies.offline.bcq:BCQPolicy")


@frozen(kw_only=True)
class DiscreteBCQLearnConfig(DQNLearnConfig):
    """Options of learning."""

    update_per_collect: int | None = options.update_per_collect()
    logit_weight: float = option(
        0.01, "weight of the squares of the imitation's logits, which keeps them small", ge=0
    )


@frozen(kw_only=True)
class DiscreteBCQConfig(DQNConfig):
    """Batch-constrained Q-learning from a dataset, discrete actions (Fujimoto et al. 2019)."""

    offline: ClassVar[bool] = True

    model: ComponentConfig = component(
        "model", default="discrete_bcq", help="Q network and imitation"
    )
    learn: DiscreteBCQLearnConfig = section(DiscreteBCQLearnConfig)

    build = builds("dicore_plugins.policies.offline.discrete_bcq:DiscreteBCQPolicy")

    def bind(self, spec: EnvSpec) -> dict[str, object]:
        """Derives the shapes of the model from the spaces.

        Raises:
            ConfigError: the actions are not one discrete choice, or the model does not take the
                observations.
        """
        found = super().bind(spec)
        if isinstance(found["model.action_shape"], int):
            return found
        raise ConfigError(
            f"policy.type: '{self.type or 'discrete_bcq'}' needs one discrete action; this env has"
            f" {spec.action}",
            hint="choose a policy with a head per action: discrete_cql",
        )
