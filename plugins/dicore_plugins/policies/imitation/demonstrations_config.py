"""Options of policies that learn from demonstrations and from their own steps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from dicore.config.schema import frozen
from dicore.config.sections import PolicyConfig

__all__ = ["DemonstrationsConfig", "two_buffers"]


def two_buffers(share: float, **options: object) -> dict[str, Any]:
    """Returns the sections of a buffer of own steps and of one of demonstrations.

    Args:
        share: Fraction of each batch that is demonstrations.
        **options: Options of both buffers.
    """
    options = {"type": "naive", **options}
    return {"agent": dict(options), "demo": {**options, "share": share}}


@frozen(kw_only=True)
class DemonstrationsConfig(PolicyConfig):
    """Comes first among the bases of the config of such a policy."""

    demonstrations: ClassVar[bool] = True
    """Read by pipelines: batches are drawn from the buffers `agent` and `demo`."""
    rewarded: ClassVar[bool] = True
    """Whether it learns from rewards, of the environment or of a reward model."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that contradict each other."""
        yield from super().check()  # type: ignore[misc] # of the config that it is combined with
        buffer, name = self.other.replay_buffer, self.type or "this policy"
        if self.reward_model is not None and not self.rewarded:
            yield "reward_model", f"{name} learns without rewards; remove it"
        if buffer is not None and "demo" not in buffer:
            yield (
                "other.replay_buffer",
                f"{name} needs a buffer for its own steps and one for demonstrations; expected"
                ' {"agent": {"type": …}, "demo": {"type": …, "share": 0.5}}',
            )
