"""How two plain trees become one: the higher wins, and inputs stay as they were."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dicore.config.leaf import kin
from dicore.config.plain import join, plain

__all__ = ["combine", "merge"]


def merge(low: Any, high: Any) -> Any:
    """Lays `high` over `low`: dict over dict recurses, anything else (lists, None) replaces.

    Args:
        low: What counts where `high` is silent.
        high: What wins.

    Returns:
        A tree of its own memory; neither input is touched.
    """
    if not (isinstance(low, Mapping) and isinstance(high, Mapping)):
        return plain(high)
    merged = {key: plain(value) for key, value in low.items()}
    for key, value in high.items():
        merged[key] = merge(low[key], value) if key in low else plain(value)
    return merged


def combine(
    first: Any, second: Any, path: str, contradiction: Callable[[str, Any, Any], None]
) -> Any:
    """Joins two trees of equal rank, which must agree where both speak.

    A name and a node are the same thing: `"dqn"` is `{"type": "dqn"}`.

    Args:
        first: One tree; its values stand where the two contradict each other.
        second: The other.
        path: Where they stand, for `contradiction`.
        contradiction: Called with the path, and the values of both, where they differ.
    """
    if isinstance(first, Mapping) or isinstance(second, Mapping):
        first, second = _node(first), _node(second)
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        joined = dict(first)
        for key, value in second.items():
            below = join(path, key)
            joined[key] = (
                combine(joined[key], value, below, contradiction) if key in joined else value
            )
        return joined
    if not _same(first, second):
        contradiction(path, first, second)
    return first


def _node(value: Any) -> Any:
    if value is None:
        return {}
    return {"type": value} if isinstance(value, str | type) else value


def _same(first: Any, second: Any) -> bool:
    first, second = kin(first), kin(second)
    if isinstance(first, bool) is not isinstance(second, bool):
        return False
    return first is second or bool(first == second)
