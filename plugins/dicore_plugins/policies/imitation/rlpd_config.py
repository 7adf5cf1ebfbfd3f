"""Options of RLPD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, section
from dicore.config.sections import OtherConfig
from dicore_plugins.lazy import builds
from dicore_plugins.policies.continuous.redq_config import REDQConfig
from dicore_plugins.policies.imitation.demonstrations_config import (
    DemonstrationsConfig,
    two_buffers,
)

_SIZE = 1_000_000


@frozen(kw_only=True)
class RLPDConfig(DemonstrationsConfig, REDQConfig):
    """REDQ that draws half of each batch from a data set (Ball et al. 2023)."""

    implies: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "priority": {
            "other": {"replay_buffer": two_buffers(0.5, type="advanced", replay_buffer_size=_SIZE)}
        }
    }

    model: ComponentConfig = component(
        "model",
        default={"type": "qac", "num_critics": 10, "critic_layer_norm": True},
        help="actor and Q networks",
    )
    other: OtherConfig = section(
        OtherConfig, replay_buffer=two_buffers(0.5, replay_buffer_size=_SIZE)
    )

    build = builds("dicore_plugins.policies.imitation.rlpd:RLPDPolicy")
