"""Options of Rainbow."""

from __future__ import annotations

from typing import Any

from dicore.config.schema import component, frozen, option, section
from dicore_plugins.policies.c51.config import C51Config
from dicore_plugins.policies.dqn.config import DQNOtherConfig, EpsConfig


@frozen(kw_only=True)
class RainbowEpsConfig(EpsConfig):
    """Schedule of epsilon; 0 throughout, since the network explores by its noise."""

    start: float = option(0.0, "initial epsilon (probability of a random action)", ge=0, le=1)
    end: float = option(0.0, "final epsilon; the noise of the network explores", ge=0, le=1)


@frozen(kw_only=True)
class RainbowOtherConfig(DQNOtherConfig):
    """Options of exploration and replay."""

    eps: RainbowEpsConfig = section(RainbowEpsConfig)
    replay_buffer: Any = component(
        "buffer",
        default={"type": "advanced", "alpha": 0.5},
        help="replay buffer that samples by priority",
    )


@frozen(kw_only=True)
class RainbowConfig(C51Config):
    """C51 with double, dueling, noisy networks, n-step returns, priorities (Hessel et al. 2018)."""

    priority: bool = option(True, "prioritized replay; needs a buffer that supports it")
    priority_IS_weight: bool = option(True, "weight losses by importance-sampling weights")  # noqa: N815 - the documents' name
    nstep: int = option(
        3, "n of n-step returns; raise for delayed rewards (more variance)", ge=1, unit="env steps"
    )
    model: Any = component("model", default="rainbow", help="network of the distributions")
    other: RainbowOtherConfig = section(RainbowOtherConfig)
