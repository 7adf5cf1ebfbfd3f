"""Options of the naive buffer."""

from __future__ import annotations

from typing import Any, ClassVar

from dicore.config.schema import ComponentConfig, frozen, option


@frozen(kw_only=True)
class NaiveConfig(ComponentConfig):
    """Stores experience first-in, first-out; samples batches uniformly."""

    keeps_priorities: ClassVar[bool] = False
    """Not inherited: a buffer derived from this one may sample by priority."""

    replay_buffer_size: int = option(
        10_000, "capacity in samples; when full, the oldest sample is overwritten", ge=1
    )
    enable_track_used_data: bool = option(
        False, "count how often each sample is used (`use_count`); log the number of unused samples"
    )
    periodic_thruput_seconds: float | None = option(
        60.0,
        "interval of throughput logs: samples pushed and sampled per second; None: off",
        gt=0,
        unit="s",
    )
    debug: bool = option(
        False,
        "debugging: overwrite recycled batches so that code still holding them fails visibly",
    )

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Creates the buffer."""
        from dicore_plugins.buffers.naive.buffer import NaiveReplayBuffer

        run = getattr(ctx, "run", None)
        return NaiveReplayBuffer(self, log=None if run is None else run.log, **parts)
