"""Middleware of deque buffers: copies, limits on use and age, groups, padding and ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dicore.errors import ReplayUnderflowError, UsageError
from dicore.run.random import stream
from dicore_compat.deque.buffer import BufferMiddleware, DequeBuffer
from dicore_compat.deque.store import BufferedData

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dicore.data import Tree
    from dicore_compat.deque.interface import Chain

__all__ = [
    "clone_object",
    "group_sample",
    "padding",
    "sample_range_view",
    "staleness_check",
    "use_time_check",
]

_COLLECTED = "train_iter_data_collected"


def clone_object(buffer_: DequeBuffer | None = None) -> BufferMiddleware:
    """Copies data when it is pushed, updated and sampled.

    Without it, a buffer stores and returns the objects themselves, and a change to one changes
    what is stored.

    Args:
        buffer_: Not needed.

    Returns:
        A middleware of buffers.
    """

    def clone(action: str, chain: Chain, *args: object, **kwargs: object) -> Any:
        if action == "push":
            data, *rest = args
            return chain(deepcopy(data), *rest, **kwargs)
        if action == "update":
            index, *rest = args
            return chain(index, *(deepcopy(each) for each in rest), **deepcopy(kwargs))
        result = chain(*args, **kwargs)
        return _each(result, _cloned) if action == "sample" else result

    return clone


def _cloned(item: BufferedData) -> BufferedData:
    return replace(item, data=deepcopy(item.data))


def use_time_check(buffer_: DequeBuffer, max_use: float = float("inf")) -> BufferMiddleware:
    """Counts how often items are sampled, in `meta["use_count"]`, and removes those used up.

    Items that one draw with replacement takes more often than that are drawn again; if too few are
    left, it returns fewer with `ignore_insufficient`, and is an error without. Draws of given
    `indices` are only counted; use it before `PriorityExperienceReplay`, which passes them.

    Args:
        buffer_: The buffer or view that uses it.
        max_use: Items are removed after this many draws.

    Returns:
        A middleware of buffers.
    """
    if not max_use >= 1:
        raise UsageError(f"max_use must be >= 1, got {max_use}")

    def check(action: str, chain: Chain, *args: object, **kwargs: object) -> Any:
        result = chain(*args, **kwargs)
        if action != "sample":
            return result
        given = kwargs.get("indices") is not None
        excess = _record_use(buffer_, result, np.inf if given else max_use, max_use)
        while excess:  # drawn with replacement more often than is left: others take their places
            more = chain(len(excess), *args[1:], **kwargs) if buffer_.count() else []
            again = _record_use(buffer_, more, max_use, max_use)
            for place, each in zip(excess, more, strict=False):
                result[place] = each
            lacking = len(excess) - len(more)
            excess = [excess[at] for at in (*again, *range(len(more), len(excess)))]
            if lacking and kwargs.get("ignore_insufficient"):
                return [each for at, each in enumerate(result) if at not in excess]
            if lacking:
                have = len(result) - len(excess)
                raise ReplayUnderflowError(
                    f"cannot sample: max_use={max_use:g} leaves {have} of {len(result)} draws",
                    hint="collect more, sample fewer, or raise max_use",
                    context={"asked": len(result), "have": have},
                )
        return result

    return check


def _record_use(
    buffer_: DequeBuffer, drawn: Sequence[object], limit: float, max_use: float
) -> list[int]:
    """Counts draws and removes what is used up; returns the places of draws beyond `limit`."""
    used: dict[str, int] = {}
    excess = []
    for place, each in enumerate(drawn):
        items = list(_flat([each]))
        counts = [used.get(item.index, item.meta.get("use_count", 0)) + 1 for item in items]
        if any(count > limit for count in counts):
            excess.append(place)
            continue
        for item, count in zip(items, counts, strict=True):
            used[item.index] = item.meta["use_count"] = count
    for index, count in used.items():
        if count < max_use:
            meta = buffer_.get_by_index(index).meta
            buffer_.update(index, None, {**meta, "use_count": count})
    buffer_.delete([index for index, count in used.items() if count >= max_use])
    return excess


def staleness_check(buffer_: DequeBuffer, max_staleness: float = float("inf")) -> BufferMiddleware:
    """Removes items that were collected many updates ago, before items are sampled.

    Push needs `meta["train_iter_data_collected"]`; sample needs `train_iter_sample_data`, and adds
    the difference as `meta["staleness"]`.

    Args:
        buffer_: The buffer or view that uses it.
        max_staleness: Items are removed if they were collected this many updates ago.

    Returns:
        A middleware of buffers.
    """
    if not max_staleness > 0:
        raise UsageError(f"max_staleness must be > 0, got {max_staleness}")

    def check(action: str, chain: Chain, *args: Any, **kwargs: Any) -> Any:
        if action == "push":
            meta = args[1] if len(args) > 1 else kwargs.get("meta")
            if not meta or _COLLECTED not in meta:
                raise UsageError(
                    f"staleness_check: the pushed item has no meta['{_COLLECTED}']",
                    hint=f'buffer.push(data, meta={{"{_COLLECTED}": train_iter}})',
                )
        if action != "sample":
            return chain(*args, **kwargs)
        if "train_iter_sample_data" not in kwargs:
            raise UsageError(
                "staleness_check: pass train_iter_sample_data",
                hint="buffer.sample(size, train_iter_sample_data=train_iter);"
                " use staleness_check before PriorityExperienceReplay",
            )
        now = kwargs.pop("train_iter_sample_data")
        ages = {item.index: now - item.meta[_COLLECTED] for item in buffer_.export_data()}
        buffer_.delete([index for index, age in ages.items() if age >= max_staleness])
        result = chain(*args, **kwargs)
        for item in _flat(result):
            item.meta["staleness"] = ages[item.index]
        return result

    return check


def padding(
    policy: Literal["random", "none"] = "random", buffer_: DequeBuffer | None = None
) -> BufferMiddleware:
    """Makes all groups of a draw as long as the longest.

    Args:
        policy: `random` repeats random items of the same group; `none` adds items without data.
        buffer_: The buffer, whose random generator is used; None: the stream `buffer`.

    Returns:
        A middleware of buffers, for draws with `groupby`.
    """
    if policy not in ("random", "none"):
        raise UsageError(f"padding: expected 'random' or 'none', got {policy!r}")

    def pad(action: str, chain: Chain, *args: object, **kwargs: object) -> Any:
        result = chain(*args, **kwargs)
        if action != "sample" or not result or isinstance(result[0], BufferedData):
            return result
        longest, rng = max(map(len, result)), _rng_of(buffer_)
        for group in result:
            count, missing = len(group), longest - len(group)
            if policy == "random":
                group += [_renewed(group[at]) for at in rng.integers(0, count, missing).tolist()]
            else:
                group += [BufferedData(None, "", dict(group[0].meta)) for _ in range(missing)]
        return result

    return pad


def _rng_of(buffer_: DequeBuffer | None) -> np.random.Generator:
    return stream("buffer") if buffer_ is None else buffer_.rng


def _renewed(item: BufferedData) -> BufferedData:
    return replace(item, meta=dict(item.meta))


def group_sample(
    size_in_group: int,
    ordered_in_group: bool = True,
    max_use_in_group: bool = True,
    buffer_: DequeBuffer | None = None,
) -> BufferMiddleware:
    """Samples some items of each group of a draw.

    Args:
        size_in_group: Number of items of each group.
        ordered_in_group: Take consecutive items; False: any, in random order.
        max_use_in_group: Of consecutive items, always take `size_in_group` if the group has as
            many; False: begin anywhere, also near the end.
        buffer_: The buffer, whose random generator is used; None: the stream `buffer`.

    Returns:
        A middleware of buffers, for draws with `groupby`.
    """
    if size_in_group < 1:
        raise UsageError(f"size_in_group must be >= 1, got {size_in_group}")

    def sample(action: str, chain: Chain, *args: object, **kwargs: object) -> Tree:
        if action != "sample":
            return chain(*args, **kwargs)
        if kwargs.get("groupby") is None:
            raise UsageError("group_sample: pass groupby to sample")
        rng = _rng_of(buffer_)
        return [_part(group, rng) for group in chain(*args, **kwargs)]

    def _part(group: list[BufferedData], rng: np.random.Generator) -> list[BufferedData]:
        count = len(group)
        if not ordered_in_group:
            if count < size_in_group:
                raise ReplayUnderflowError(
                    f"cannot sample: asked {size_in_group}, have {count} items in a group",
                    context={"asked": size_in_group, "have": count},
                )
            return [group[at] for at in rng.choice(count, size_in_group, replace=False).tolist()]
        starts = max(0, count - size_in_group) + 1 if max_use_in_group else count
        start = int(rng.integers(0, starts))
        return group[start : start + size_in_group]

    return sample


def sample_range_view(
    buffer_: DequeBuffer, start: int | None = None, end: int | None = None
) -> BufferMiddleware:
    """Samples from a slice of the items only, for a view.

    Args:
        buffer_: The buffer or view that uses it.
        start: First item, oldest first; negative: from the newest; None: the oldest.
        end: Item after the last one; None: to the newest.

    Returns:
        A middleware of buffers.
    """
    chosen = slice(start, end)

    def sample(action: str, chain: Chain, *args: object, **kwargs: object) -> Tree:
        if action == "sample":
            kwargs["sample_range"] = chosen
        return chain(*args, **kwargs)

    return sample


def _flat(drawn: Iterable[Any]) -> Iterable[BufferedData]:
    """Yields the items of a draw, with or without groups."""
    for each in drawn:
        if isinstance(each, BufferedData):
            yield each
        else:
            yield from each


def _each(drawn: Iterable[Any], fn: Callable[[BufferedData], Any]) -> list[Any]:
    """Applies a function to the items of a draw, with or without groups."""
    return [
        fn(each) if isinstance(each, BufferedData) else [fn(item) for item in each]
        for each in drawn
    ]
