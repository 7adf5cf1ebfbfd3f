"""Options of the naive buffer."""

from __future__ import annotations

from typing import Any

from dicore.config.declare import ComponentConfig, frozen, option


@frozen(kw_only=True)
class NaiveConfig(ComponentConfig):
    """First-in first-out ring, sampled uniformly."""

    replay_buffer_size: int = option(10_000, "rows kept before the oldest goes", ge=1)
    debug: bool = option(False, "spoil recycled batches on retirement, to find stale readers")

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Makes the buffer."""
        from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer

        return NaiveReplayBuffer(self, **parts)
