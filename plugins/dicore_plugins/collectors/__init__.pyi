from dicore_compat.collectors.battle.collector import (
    BattleEpisodeCollector as BattleEpisodeCollector,
)
from dicore_compat.collectors.battle.collector import BattleSampleCollector as BattleSampleCollector
from dicore_compat.collectors.battle.config import (
    BattleEpisodeCollectorConfig as BattleEpisodeCollectorConfig,
)
from dicore_compat.collectors.battle.config import (
    BattleSampleCollectorConfig as BattleSampleCollectorConfig,
)
from dicore_compat.collectors.battle.sides import sides_of as sides_of
from dicore_plugins.collectors.base import EpisodeStatistics as EpisodeStatistics
from dicore_plugins.collectors.base import SerialCollector as SerialCollector
from dicore_plugins.collectors.block import Block as Block
from dicore_plugins.collectors.episode.collector import EpisodeCollector as EpisodeCollector
from dicore_plugins.collectors.episode.config import (
    EpisodeCollectorConfig as EpisodeCollectorConfig,
)
from dicore_plugins.collectors.sample.collector import SampleCollector as SampleCollector
from dicore_plugins.collectors.sample.config import SampleCollectorConfig as SampleCollectorConfig
