"""Collectors: they turn env steps into training samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.collectors.base import EpisodeStatistics, SerialCollector
    from dicore_plugins.collectors.battle.collector import (
        BattleEpisodeCollector,
        BattleSampleCollector,
    )
    from dicore_plugins.collectors.battle.config import (
        BattleEpisodeCollectorConfig,
        BattleSampleCollectorConfig,
    )
    from dicore_plugins.collectors.battle.sides import sides_of
    from dicore_plugins.collectors.block import Block
    from dicore_plugins.collectors.episode.collector import EpisodeCollector
    from dicore_plugins.collectors.episode.config import EpisodeCollectorConfig
    from dicore_plugins.collectors.sample.collector import SampleCollector
    from dicore_plugins.collectors.sample.config import SampleCollectorConfig

__all__ = [
    "BattleEpisodeCollector",
    "BattleEpisodeCollectorConfig",
    "BattleSampleCollector",
    "BattleSampleCollectorConfig",
    "Block",
    "EpisodeCollector",
    "EpisodeCollectorConfig",
    "EpisodeStatistics",
    "SampleCollector",
    "SampleCollectorConfig",
    "SerialCollector",
    "sides_of",
]

_HOMES = {
    ".base": (
        "EpisodeStatistics",
        "SerialCollector",
    ),
    ".battle.collector": ("BattleEpisodeCollector", "BattleSampleCollector"),
    ".battle.config": ("BattleEpisodeCollectorConfig", "BattleSampleCollectorConfig"),
    ".battle.sides": ("sides_of",),
    ".block": ("Block",),
    ".episode.collector": ("EpisodeCollector",),
    ".episode.config": ("EpisodeCollectorConfig",),
    ".sample.collector": ("SampleCollector",),
    ".sample.config": ("SampleCollectorConfig",),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
