"""Options of the episode collector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dicore.config.schema import ComponentConfig, frozen, option
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore.interfaces.collector import ISerialCollector


@frozen(kw_only=True)
class EpisodeCollectorConfig(ComponentConfig):
    """Collects whole episodes, the same number (or one less) of each environment."""

    n_episode: int | None = option(
        None, "episodes per collect", ge=1, follows="policy.collect.n_episode"
    )
    get_train_sample: bool = option(
        False,
        "make the policy's samples of each episode; false: return its transitions, for hindsight"
        " replay and reward models",
    )
    reward_shaping: bool = option(
        False, "pass each episode to `reward_shaping(transitions)` of its environment"
    )
    collect_print_freq: int = option(
        100, "gradient updates between log lines", ge=1, unit="updates"
    )

    def build(self, ctx: BuildContext | None, **parts: Any) -> ISerialCollector:
        """Returns the collector; `parts` are `env_manager` and `policy` (a collect mode)."""
        from dicore_plugins.collectors.episode.collector import EpisodeCollector

        return EpisodeCollector(self, **parts)
