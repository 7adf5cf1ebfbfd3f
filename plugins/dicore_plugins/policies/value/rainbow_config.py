"""Options of Rainbow."""

from __future__ import annotations

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore_plugins.policies.value.c51_config import C51Config
from dicore_plugins.policies.value.dqn_config import NO_EPS, DQNOtherConfig


@frozen(kw_only=True)
class RainbowConfig(C51Config):
    """C51 with double, dueling, noisy networks, n-step returns, priorities (Hessel et al. 2018)."""

    priority: bool = option(True, "prioritized replay; needs a buffer that supports it")
    priority_IS_weight: bool = option(True, "weight losses by importance-sampling weights")  # noqa: N815 - the documents' name
    nstep: int = option(
        3, "n of n-step returns; raise for delayed rewards (more variance)", ge=1, unit="env steps"
    )
    model: ComponentConfig = component(
        "model", default="rainbow", help="network of the distributions"
    )
    other: DQNOtherConfig = section(
        DQNOtherConfig, eps=NO_EPS, replay_buffer={"type": "advanced", "alpha": 0.5}
    )
