"""Options of D4PG."""

from __future__ import annotations

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore.config.sections import OtherConfig
from dicore_plugins.lazy import builds
from dicore_plugins.policies.continuous.td3_config import DDPGConfig


@frozen(kw_only=True)
class D4PGConfig(DDPGConfig):
    """DDPG with the distribution of n-step returns and prioritized replay (Barth-Maron 2018)."""

    priority: bool = option(True, "prioritized replay; needs a buffer that supports it")
    priority_IS_weight: bool = option(True, "weight losses by importance-sampling weights")  # noqa: N815 - the documents' name
    nstep: int = option(
        3, "n of n-step returns; raise for delayed rewards (more variance)", ge=1, unit="env steps"
    )
    model: ComponentConfig = component(
        "model", default="d4pg", help="actor and networks of distributions"
    )
    other: OtherConfig = section(OtherConfig, replay_buffer="advanced")

    build = builds("dicore_plugins.policies.continuous.d4pg:D4PGPolicy")
