"""Options of the naive buffer."""

from __future__ import annotations

from typing import Any, ClassVar

from dicore.config.declare import ComponentConfig, frozen, option


@frozen(kw_only=True)
class NaiveConfig(ComponentConfig):
    """First-in first-out ring, sampled uniformly."""

    keeps_priorities: ClassVar[bool] = False

    replay_buffer_size: int = option(10_000, "rows kept before the oldest goes", ge=1)
    deepcopy: bool = option(
        False, "kept for older configs: rows handed out are copies whatever this says"
    )
    enable_track_used_data: bool = option(
        False, "count how often each row was drawn (`use_count`), and log how many never were"
    )
    periodic_thruput_seconds: float | None = option(
        60.0,
        "time between log lines of rows pushed and drawn per second; None: none",
        gt=0,
        unit="s",
    )
    debug: bool = option(False, "spoil recycled batches on retirement, to find stale readers")

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Makes the buffer."""
        from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer

        run = getattr(ctx, "run", None)
        return NaiveReplayBuffer(self, log=None if run is None else run.log, **parts)
