"""Options of DQfD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from dicore.config.schema import frozen, option, section
from dicore_plugins.lazy import builds
from dicore_plugins.policies.imitation.demonstrations_config import (
    DemonstrationsConfig,
    two_buffers,
)
from dicore_plugins.policies.value.dqn_config import DQNConfig, DQNLearnConfig, DQNOtherConfig

_BUFFERS = two_buffers(0.25, replay_buffer_size=50_000)


@frozen(kw_only=True)
class DQfDLearnConfig(DQNLearnConfig):
    """Options of learning."""

    pretrain: int = option(
        1_000, "updates from demonstrations alone before collecting", ge=0, unit="updates"
    )
    margin: float = option(
        0.8, "by how much the values of actions shown are to exceed those of others", ge=0
    )
    margin_weight: float = option(1.0, "weight of the large-margin loss of demonstrations", ge=0)
    one_step_weight: float = option(
        1.0, "weight of the 1-step TD loss beside the n-step one; no effect with nstep=1", ge=0
    )
    weight_decay: float | None = option(
        1e-5, "L2 regularization of the parameters; replaces optimizer.weight_decay if set", ge=0
    )


@frozen(kw_only=True)
class DQfDConfig(DemonstrationsConfig, DQNConfig):
    """DQN that first learns from demonstrations, with a large margin (Hester et al. 2018)."""

    implies: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "priority": {
            "other": {
                "replay_buffer": two_buffers(0.25, type="advanced", replay_buffer_size=50_000)
            }
        }
    }

    nstep: int = option(
        10, "n of n-step returns; raise for delayed rewards (more variance)", ge=1, unit="env steps"
    )
    learn: DQfDLearnConfig = section(DQfDLearnConfig)
    other: DQNOtherConfig = section(DQNOtherConfig, replay_buffer=_BUFFERS)

    build = builds("dicore_plugins.policies.imitation.dqfd:DQfDPolicy")
