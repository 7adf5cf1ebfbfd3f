"""Options of the elastic buffer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dicore.config.schema import frozen, option
from dicore.run.env_factory import BuildContext
from dicore_plugins.buffers.naive.config import NaiveConfig

if TYPE_CHECKING:
    from dicore.interfaces.buffer import IBuffer


@frozen(kw_only=True)
class ElasticConfig(NaiveConfig):
    """Samples uniformly from the newest samples, whose number follows the env steps."""

    keeps_priorities: ClassVar[bool] = False

    start_size: int | None = option(None, "size at first; None: replay_buffer_size", ge=1)
    end_size: int | None = option(None, "final size; None: replay_buffer_size", ge=1)
    size_steps: int = option(
        100_000, "the size changes linearly in this time", ge=1, unit="env steps"
    )

    def check(self) -> Any:
        """Yields sizes beyond the capacity."""
        yield from super().check()
        for name, size in (("start_size", self.start_size), ("end_size", self.end_size)):
            if size is not None and size > self.replay_buffer_size:
                yield name, f"must be <= {self.replay_buffer_size}, replay_buffer_size, got {size}"

    def build(self, ctx: BuildContext | None, **parts: object) -> IBuffer:
        """Creates the buffer."""
        from dicore_plugins.buffers.elastic.buffer import ElasticReplayBuffer

        return self.filled(ElasticReplayBuffer(self, **{**self.parts_of(ctx), **parts}))
