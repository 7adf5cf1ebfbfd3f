"""Options of R2D3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dicore.config.schema import frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.imitation.demonstrations_config import (
    DemonstrationsConfig,
    two_buffers,
)
from dicore_plugins.policies.value.dqn_config import DQNOtherConfig
from dicore_plugins.policies.value.r2d2_config import R2D2Config, R2D2LearnConfig

_BUFFERS = two_buffers(0.25, type="advanced", alpha=0.9, beta=0.6, anneal_step=0)


@frozen(kw_only=True)
class R2D3LearnConfig(R2D2LearnConfig):
    """Options of learning."""

    pretrain: int = option(
        0, "updates from demonstrations alone before collecting", ge=0, unit="updates"
    )
    margin: float = option(
        0.8, "by how much the values of actions shown are to exceed those of others", ge=0
    )
    margin_weight: float = option(
        0.0, "weight of the large-margin loss of demonstrations (DQfD); 0: as in the paper", ge=0
    )


@frozen(kw_only=True)
class R2D3Config(DemonstrationsConfig, R2D2Config):
    """R2D2 with a share of demonstrations in each batch (Paine et al. 2019)."""

    implies: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "priority": {"other": {"replay_buffer": _BUFFERS}}
    }

    learn: R2D3LearnConfig = section(R2D3LearnConfig)
    other: DQNOtherConfig = section(DQNOtherConfig, replay_buffer=_BUFFERS)

    build = builds("dicore_plugins.policies.imitation.r2d3:R2D3Policy")
