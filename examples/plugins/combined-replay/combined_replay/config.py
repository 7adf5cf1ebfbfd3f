"""Options of the buffer; imports nothing heavy, so that listing is fast."""

from __future__ import annotations

from typing import Any, ClassVar

from dicore.config import frozen, option
from dicore_plugins.buffers import NaiveConfig

__all__ = ["CombinedConfig"]


@frozen(kw_only=True)
class CombinedConfig(NaiveConfig):
    """Samples uniformly, but the newest samples are in each batch (Zhang and Sutton 2017)."""

    keeps_priorities: ClassVar[bool] = False

    newest: int = option(1, "newest samples in each batch", ge=1, unit="samples")

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Creates the buffer."""
        from combined_replay.buffer import CombinedReplayBuffer

        return self.filled(CombinedReplayBuffer(self, **{**self.parts_of(ctx), **parts}))
