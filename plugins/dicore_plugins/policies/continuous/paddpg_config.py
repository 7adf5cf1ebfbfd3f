"""Options of PA-DDPG."""

from __future__ import annotations

from dicore.config.schema import ComponentConfig, component, frozen
from dicore_plugins.lazy import builds
from dicore_plugins.policies.continuous.pdqn_config import HybridQConfig


@frozen(kw_only=True)
class PADDPGConfig(HybridQConfig):
    """DDPG whose actor selects scores of the discrete actions too (Hausknecht and Stone 2016)."""

    model: ComponentConfig = component(
        "model", default="paddpg", help="actor of scores and arguments, and Q network"
    )

    build = builds("dicore_plugins.policies.continuous.paddpg:PADDPGPolicy")
