"""Options of FQF."""

from __future__ import annotations

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.value.dqn_config import DQNConfig
from dicore_plugins.policies.value.qrdqn_config import QRDQNLearnConfig


@frozen(kw_only=True)
class FQFLearnConfig(QRDQNLearnConfig):
    """Options of learning."""

    fraction_learning_rate: float = option(
        2.5e-9,
        "learning rate of the fractions, much smaller than learning_rate",
        gt=0,
        lt=float("inf"),
    )
    fraction_optimizer: ComponentConfig = component(
        "optimizer",
        default={"type": "rmsprop", "alpha": 0.95, "eps": 1e-5},
        help="updates the layer that proposes fractions",
    )
    fraction_entropy_weight: float = option(
        0.0, "weight of the entropy of the fractions, which keeps them apart", ge=0
    )


@frozen(kw_only=True)
class FQFConfig(DQNConfig):
    """Q-learning of quantiles at learned fractions (Yang et al. 2019, FQF)."""

    model: ComponentConfig = component("model", default="fqf", help="network of the quantiles")
    learn: FQFLearnConfig = section(FQFLearnConfig)  # type: ignore[assignment] # replaces the base's options

    build = builds("dicore_plugins.policies.value.fqf:FQFPolicy")
