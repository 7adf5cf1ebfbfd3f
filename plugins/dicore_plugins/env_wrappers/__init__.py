"""Env wrappers, configured in `env.env_wrapper`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.env_wrappers.wrappers import (
        DelayReward,
        EpisodeReturn,
        MaxAndSkip,
        NoopReset,
        PrevActionReward,
    )

__all__ = ["DelayReward", "EpisodeReturn", "MaxAndSkip", "NoopReset", "PrevActionReward"]

__getattr__ = lazy(__name__, {".wrappers": __all__})
