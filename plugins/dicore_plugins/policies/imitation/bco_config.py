"""Options of behavioural cloning from observation."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import ComponentConfig, component, frozen, option, section
from dicore.config.sections import OtherConfig
from dicore_plugins.lazy import builds
from dicore_plugins.policies.actor_critic.base_config import ActorCriticCollectConfig
from dicore_plugins.policies.imitation.bc_config import CloningConfig, CloningLearnConfig
from dicore_plugins.policies.imitation.demonstrations_config import (
    DemonstrationsConfig,
    two_buffers,
)

_BUFFERS = two_buffers(0.5, replay_buffer_size=20_000)


@frozen(kw_only=True)
class BCOCollectConfig(ActorCriticCollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(
        128, "samples per collect; use a multiple of env.collector_env_num", ge=1
    )
    random_collect_size: int = option(
        1_024, "samples collected with random actions at first, for the inverse model", ge=0
    )


@frozen(kw_only=True)
class BCOConfig(DemonstrationsConfig, CloningConfig):
    """Behavioural cloning from observations alone, by an inverse model (Torabi et al. 2018)."""

    rewarded: ClassVar[bool] = False

    model: ComponentConfig = component(
        "model", default="bco", help="network of actions, and inverse model"
    )
    learn: CloningLearnConfig = section(  # type: ignore[assignment] # replaces the base's options
        CloningLearnConfig,
        batch_size=option(128, "samples per gradient update, shown and own ones", ge=1),
        update_per_collect=16,
    )
    collect: BCOCollectConfig = section(BCOCollectConfig)
    other: OtherConfig = section(OtherConfig, replay_buffer=_BUFFERS)

    build = builds("dicore_plugins.policies.imitation.bco:BCOPolicy")
