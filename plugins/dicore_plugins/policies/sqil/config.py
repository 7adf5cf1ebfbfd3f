"""Options of SQIL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from dicore.config.schema import component, frozen, option, section
from dicore.config.sections import OtherConfig
from dicore_plugins.lazy import builds
from dicore_plugins.policies.demonstrations.config import DemonstrationsConfig, two_buffers
from dicore_plugins.policies.sac.config import SACConfig
from dicore_plugins.policies.sqn.config import SQNConfig, SQNLearnConfig, SQNOtherConfig

HALF = two_buffers(0.5, replay_buffer_size=50_000)
"""Half of each batch is demonstrations."""
PRIORITIZED = {
    "priority": {
        "other": {"replay_buffer": two_buffers(0.5, type="advanced", replay_buffer_size=50_000)}
    }
}
"""What prioritized replay implies."""


@frozen(kw_only=True)
class SQILLearnConfig(SQNLearnConfig):
    """Options of learning."""

    auto_temperature: bool = option(
        False, "learn the temperature, so that the entropy stays near target_entropy"
    )


@frozen(kw_only=True)
class SQILOtherConfig(SQNOtherConfig):
    """Options of exploration and replay."""

    replay_buffer: Any = component(
        "buffer", default=HALF, help="buffers of own steps and of demonstrations", named=True
    )


@frozen(kw_only=True)
class SQILConfig(DemonstrationsConfig, SQNConfig):
    """Imitation by soft Q-learning with reward 1 for demonstrations, 0 else (Reddy et al. 2020)."""

    rewarded: ClassVar[bool] = False
    implies: ClassVar[Mapping[str, Any]] = PRIORITIZED

    model: Any = component(
        "model", default={"type": "sqn", "temperature": 1.0}, help="two Q networks, a temperature"
    )
    learn: SQILLearnConfig = section(SQILLearnConfig)
    other: SQILOtherConfig = section(SQILOtherConfig)

    build = builds("dicore_plugins.policies.sqil.policy:SQILPolicy")


@frozen(kw_only=True)
class SQILSACOtherConfig(OtherConfig):
    """Options of replay."""

    replay_buffer: Any = component(
        "buffer", default=HALF, help="buffers of own steps and of demonstrations", named=True
    )


@frozen(kw_only=True)
class SQILSACConfig(DemonstrationsConfig, SACConfig):
    """SQIL for continuous actions: SAC with the rewards of SQIL (Reddy et al. 2020)."""

    rewarded: ClassVar[bool] = False
    implies: ClassVar[Mapping[str, Any]] = PRIORITIZED

    other: SQILSACOtherConfig = section(SQILSACOtherConfig)

    build = builds("dicore_plugins.policies.sqil.policy:SQILSACPolicy")
