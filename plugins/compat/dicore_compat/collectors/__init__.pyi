from dicore_compat.collectors.battle.collector import (
    BattleEpisodeCollector as BattleEpisodeCollector,
)
from dicore_compat.collectors.battle.collector import (
    BattleSampleCollector as BattleSampleCollector,
)
from dicore_compat.collectors.battle.config import (
    BattleEpisodeCollectorConfig as BattleEpisodeCollectorConfig,
)
from dicore_compat.collectors.battle.config import (
    BattleSampleCollectorConfig as BattleSampleCollectorConfig,
)
from dicore_compat.collectors.battle.sides import sides_of as sides_of
