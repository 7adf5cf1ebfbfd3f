"""Options of C51."""

from __future__ import annotations

from dicore.config.schema import ComponentConfig, component, frozen, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.value.dqn_config import DQNConfig, ValueLearnConfig


@frozen(kw_only=True)
class C51Config(DQNConfig):
    """Q-learning of the distribution of returns, over fixed atoms (Bellemare et al. 2017)."""

    model: ComponentConfig = component("model", default="c51", help="network of the distributions")
    learn: ValueLearnConfig = section(ValueLearnConfig)  # type: ignore[assignment] # replaces the base's options

    build = builds("dicore_plugins.policies.value.c51:C51Policy")
