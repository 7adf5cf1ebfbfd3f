"""Options of QR-DQN."""

from __future__ import annotations

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.value.dqn_config import DQNConfig, ValueLearnConfig


@frozen(kw_only=True)
class QRDQNLearnConfig(ValueLearnConfig):
    """Options of learning."""

    kappa: float = option(
        1.0, "error at which the quantile Huber loss turns linear; 0: never quadratic", ge=0
    )


@frozen(kw_only=True)
class QRDQNConfig(DQNConfig):
    """Q-learning of the distribution of returns, by quantiles (Dabney et al. 2018)."""

    model: ComponentConfig = component("model", default="qrdqn", help="network of the quantiles")
    learn: QRDQNLearnConfig = section(QRDQNLearnConfig)  # type: ignore[assignment] # replaces the base's options

    build = builds("dicore_plugins.policies.value.qrdqn:QRDQNPolicy")
