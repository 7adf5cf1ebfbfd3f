"""Options of the deque buffer."""

from __future__ import annotations

from typing import Any

from dicore.config.schema import ComponentConfig, components, frozen, option

__all__ = ["DequeConfig"]

_INF = float("inf")


@frozen(kw_only=True)
class DequeConfig(ComponentConfig):
    """DI-engine's deque buffer with its middleware: samples are Python objects, not columns."""

    replay_buffer_size: int = option(
        10_000, "capacity in samples; when full, the oldest sample is removed", ge=1
    )
    max_use: float = option(
        _INF, "remove samples after this many draws; inf: no limit", ge=1, unit="draws"
    )
    max_staleness: float = option(
        _INF,
        "remove samples that were collected this many updates ago; inf: no limit",
        gt=0,
        unit="updates",
    )
    alpha: float = option(
        0.6, "exponent of priorities; 0: uniform sampling, 1: proportional", ge=0, le=10
    )
    beta: float = option(
        0.4, "initial exponent of importance-sampling weights; 1: full correction", ge=0, le=1
    )
    anneal_step: int = option(
        100_000,
        "beta rises linearly to 1 in this many draws; 0: it is constant",
        ge=0,
        unit="draws",
    )

    middleware: tuple[Any, ...] = components(
        "buffer_middleware",
        help="middleware by name, the first one outermost; those of the options above are inside",
    )

    def build(self, ctx: Any, **parts: Any) -> Any:
        """Creates the buffer."""
        from dicore_plugins.buffers.deque.replay import DequeReplayBuffer

        return DequeReplayBuffer(self, **parts)
