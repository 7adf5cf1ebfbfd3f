"""Options of the random policy, and of others that never learn."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import frozen, option, section
from dicore.config.sections import CollectConfig, PolicyConfig
from dicore_plugins.lazy import builds

__all__ = ["FixedConfig", "RandomCollectConfig", "RandomConfig"]


@frozen(kw_only=True)
class RandomCollectConfig(CollectConfig):
    """Options of collecting."""

    n_sample: int | None = option(
        8, "samples per collect; use a multiple of env.collector_env_num", ge=1
    )


@frozen(kw_only=True)
class FixedConfig(PolicyConfig):
    """Options of policies that act and never learn."""

    learns: ClassVar[bool] = False

    on_policy: bool = option(False, "train only on samples of the current policy")
    collect: RandomCollectConfig = section(RandomCollectConfig)


@frozen(kw_only=True)
class RandomConfig(FixedConfig):
    """Samples actions uniformly: for warm-up and as a baseline."""

    build = builds("dicore_plugins.policies.random:RandomPolicy", takes="action_space")
