"""Options of the episode buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dicore.config.schema import ComponentConfig, frozen, option
from dicore.run.env_factory import BuildContext
from dicore_plugins.buffers.naive.config import share_option, share_updates_option

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IBuffer


__all__ = ["EpisodeConfig"]


@frozen(kw_only=True)
class EpisodeConfig(ComponentConfig):
    """Stores and samples whole episodes, uniformly."""

    keeps_priorities: ClassVar[bool] = False
    keeps_origin: ClassVar[bool] = True
    """Needs all steps of each environment, in order."""

    replay_buffer_size: int = option(
        1000, "capacity in episodes; when full, the oldest episode is removed", ge=1
    )
    max_episode_len: int = option(
        100_000,
        "longest episode; a longer one is an error, because it would fill the memory",
        ge=1,
        unit="steps",
    )
    share: float | None = share_option()
    share_updates: int | None = share_updates_option()
    padded: bool = option(
        False,
        "return batches [B, T, ...], padded to the longest episode, with `valid` and `episode_len`;"
        " False: one episode after the other, [steps, ...]",
    )

    def build(self, ctx: BuildContext | None, **parts: Any) -> IBuffer:
        """Creates the buffer."""
        from dicore_plugins.buffers.episode.buffer import EpisodeReplayBuffer

        return EpisodeReplayBuffer(self, **parts)
