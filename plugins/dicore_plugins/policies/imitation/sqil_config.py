"""Options of SQIL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, section
from dicore.config.sections import OtherConfig
from dicore_plugins.lazy import builds
from dicore_plugins.policies.continuous.sac_config import SACConfig
from dicore_plugins.policies.imitation.demonstrations_config import (
    DemonstrationsConfig,
    two_buffers,
)
from dicore_plugins.policies.value.dqn_config import NO_EPS, DQNOtherConfig
from dicore_plugins.policies.value.sqn_config import SQNConfig, SQNLearnConfig

HALF = two_buffers(0.5, replay_buffer_size=50_000)
"""Half of each batch is demonstrations."""
PRIORITIZED = {
    "priority": {
        "other": {"replay_buffer": two_buffers(0.5, type="advanced", replay_buffer_size=50_000)}
    }
}
"""What prioritized replay implies."""


@frozen(kw_only=True)
class SQILConfig(DemonstrationsConfig, SQNConfig):
    """Imitation by soft Q-learning with reward 1 for demonstrations, 0 else (Reddy et al. 2020)."""

    rewarded: ClassVar[bool] = False
    implies: ClassVar[Mapping[str, Mapping[str, object]]] = PRIORITIZED

    model: ComponentConfig = component(
        "model", default={"type": "sqn", "temperature": 1.0}, help="two Q networks, a temperature"
    )
    learn: SQNLearnConfig = section(SQNLearnConfig, auto_temperature=False)
    other: DQNOtherConfig = section(DQNOtherConfig, eps=NO_EPS, replay_buffer=HALF)

    build = builds("dicore_plugins.policies.imitation.sqil:SQILPolicy")


@frozen(kw_only=True)
class SQILSACConfig(DemonstrationsConfig, SACConfig):
    """SQIL for continuous actions: SAC with the rewards of SQIL (Reddy et al. 2020)."""

    rewarded: ClassVar[bool] = False
    implies: ClassVar[Mapping[str, Mapping[str, object]]] = PRIORITIZED

    other: OtherConfig = section(OtherConfig, replay_buffer=HALF)

    build = builds("dicore_plugins.policies.imitation.sqil:SQILSACPolicy")
