"""Options of BDQ."""

from __future__ import annotations

from dicore.config.schema import ComponentConfig, component, frozen
from dicore_plugins.lazy import builds
from dicore_plugins.policies.value.dqn_config import DQNConfig


@frozen(kw_only=True)
class BDQConfig(DQNConfig):
    """Branching DQN for multi-discrete actions: one target for all parts (Tavakoli et al. 2018)."""

    model: ComponentConfig = component(
        "model", default="bdq", help="Q network with a head per part"
    )

    build = builds("dicore_plugins.policies.value.bdq:BDQPolicy")
