"""Options of the deque buffer."""

from __future__ import annotations

from typing import Any

from dicore.config.schema import ComponentConfig, components, frozen, option
from dicore.interfaces.buffer import IBuffer
from dicore.run.env_factory import BuildContext
from dicore_plugins.buffers.naive.config import (
    alpha_option,
    anneal_option,
    beta_option,
    max_staleness_option,
    max_use_option,
    share_option,
)

__all__ = ["DequeConfig"]


@frozen(kw_only=True)
class DequeConfig(ComponentConfig):
    """DI-engine's deque buffer with its middleware: samples are Python objects, not columns."""

    replay_buffer_size: int = option(
        10_000, "capacity in samples; when full, the oldest sample is removed", ge=1
    )
    max_use: float = max_use_option()
    max_staleness: float = max_staleness_option()
    share: float | None = share_option()
    alpha: float = alpha_option()
    beta: float = beta_option()
    anneal_step: int = anneal_option()

    middleware: tuple[Any, ...] = components(
        "buffer_middleware",
        help="middleware by name, the first one outermost; those of the options above are inside,"
        " and priorities innermost",
    )

    def build(self, ctx: BuildContext | None, **parts: Any) -> IBuffer:
        """Creates the buffer."""
        from dicore_compat.deque.replay import DequeReplayBuffer

        return DequeReplayBuffer(self, **parts)
