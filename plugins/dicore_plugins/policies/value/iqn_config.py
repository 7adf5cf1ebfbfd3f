"""Options of IQN."""

from __future__ import annotations

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.value.dqn_config import DQNConfig
from dicore_plugins.policies.value.qrdqn_config import QRDQNLearnConfig


@frozen(kw_only=True)
class IQNLearnConfig(QRDQNLearnConfig):
    """Options of learning."""

    num_quantiles: int = option(8, "quantiles of the loss (N of the paper)", ge=1)
    num_target_quantiles: int = option(8, "quantiles of the target (N' of the paper)", ge=1)


@frozen(kw_only=True)
class IQNConfig(DQNConfig):
    """Q-learning of quantiles at random fractions (Dabney et al. 2018, IQN)."""

    model: ComponentConfig = component("model", default="iqn", help="network of the quantiles")
    learn: IQNLearnConfig = section(IQNLearnConfig)  # type: ignore[assignment] # replaces the base's options

    build = builds("dicore_plugins.policies.value.iqn:IQNPolicy")
