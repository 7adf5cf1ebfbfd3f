"""What the policies of this package that learn from sequences require of their replay buffer."""

from __future__ import annotations

from collections.abc import Iterator

from dicore.config import PolicyConfig
from dicore_plugins.policies import unused_options

__all__ = ["replay_problems"]


def replay_problems(cfg: PolicyConfig, rest: int = 0) -> Iterator[tuple[str, str]]:
    """Yields options of `other.replay_buffer` that do not fit, or have no effect.

    Args:
        cfg: Options of the policy.
        rest: Last steps of a sequence that are not learned from.
    """
    buffer, place, count = cfg.other.replay_buffer, "other.replay_buffer", cfg.learn.batch_size
    size = buffer.get("replay_buffer_size")
    if size is not None and count > size:
        yield "learn.batch_size", f"must be <= {size}, the capacity of {place}"
    if buffer.get("newest", 0) > count:
        yield f"{place}.newest", f"must be <= learn.batch_size = {count}"
    length = buffer.get("unroll_len") or 0
    if length > rest and (buffer.get("stride") or length) > length - rest:
        yield f"{place}.stride", f"must be <= {length - rest}, or steps are left out"
    names = ("alpha", "beta", "anneal_step", "eta")
    yield from unused_options(buffer, "priority", *names, place=f"{place}.")
