"""Options of the collectors for two policies in one environment."""

from __future__ import annotations

from typing import Any

from dicore.config.schema import frozen
from dicore.interfaces.collector import ISerialCollector
from dicore.run.env_factory import BuildContext
from dicore_plugins.collectors.episode.config import EpisodeCollectorConfig
from dicore_plugins.collectors.sample.config import SampleCollectorConfig


@frozen(kw_only=True)
class BattleSampleCollectorConfig(SampleCollectorConfig):
    """Collects training samples of two policies in one environment, a list for each side."""

    def build(self, ctx: BuildContext | None, **parts: Any) -> ISerialCollector:
        """Returns the collector; `policy` is a list of two collect modes, or one mode."""
        from dicore_compat.collectors.battle.collector import BattleSampleCollector

        return BattleSampleCollector(self, **parts)


@frozen(kw_only=True)
class BattleEpisodeCollectorConfig(EpisodeCollectorConfig):
    """Collects whole episodes of two policies in one environment, a list for each side."""

    def build(self, ctx: BuildContext | None, **parts: Any) -> ISerialCollector:
        """Returns the collector; `policy` is a list of two collect modes, or one mode."""
        from dicore_compat.collectors.battle.collector import BattleEpisodeCollector

        return BattleEpisodeCollector(self, **parts)
