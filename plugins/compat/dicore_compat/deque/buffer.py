"""A buffer of any objects, with a chain of middleware around its actions.

Shapes: B items drawn, L items of a window.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from dicore.errors import ReplayCapacityError, ReplayUnderflowError, UsageError
from dicore.run.checkpoint_store import read_state, write_state
from dicore.run.random import stream
from dicore_compat.deque.store import BufferedData, Store
from dicore_plugins.buffers.memory import check_kind

if TYPE_CHECKING:
    from dicore.data import State, StateDict, Tree
    from dicore_compat.deque.samples import DequeSamples

__all__ = ["Buffer", "BufferMiddleware", "DequeBuffer"]

BufferMiddleware = Callable[..., Any]
"""`fn(action, chain, *args, **kwargs)`: `chain(*args, **kwargs)` goes on with the action."""

GroupKey = str | Callable[[BufferedData], Hashable]


class Buffer:
    """Base class of buffers with middleware.

    A middleware is a function `fn(action, chain, *args, **kwargs)`. `action` is push, sample,
    update, delete or clear, with the arguments of this method; `chain(*args, **kwargs)` calls the
    next middleware and in the end the method itself. The first middleware is the outermost. If one
    raises, what was changed before is undone.
    """

    def __init__(self) -> None:
        self._middleware: list[BufferMiddleware] = []

    @property
    def middleware(self) -> tuple[BufferMiddleware, ...]:
        """The middleware, the outermost first."""
        return tuple(self._middleware)

    def use(self, fn: BufferMiddleware) -> Self:
        """Adds a middleware, inside those that were added before."""
        if not callable(fn):
            raise UsageError(f"use: expected a function (action, chain, …), got {fn!r}")
        self._middleware.append(fn)
        return self

    def view(self) -> Self:
        """Returns a buffer with the same items, and middleware of its own.

        It begins with the middleware of this one; what is added later concerns only one of both.
        """
        other = copy.copy(self)
        other._middleware = list(self._middleware)  # noqa: SLF001 - it is of this class
        return other

    def _through(
        self, action: str, base: Callable[..., object], *args: object, **kwargs: object
    ) -> Any:
        call = base
        for fn in reversed(self._middleware):
            call = partial(fn, action, call)
        return call(*args, **kwargs)


class DequeBuffer(Buffer):
    """First-in first-out buffer of any objects, each with a dict of facts (meta).

    Args:
        size: Capacity in items.
        sliced: With `unroll_len`, windows begin at multiples of it in their group, and all of them
            are drawn alike; False: groups are drawn, and the windows begin anywhere in them.
        rng: Random generator for sampling; None: the stream `buffer`.
    """

    def __init__(
        self, size: int, sliced: bool = False, *, rng: np.random.Generator | None = None
    ) -> None:
        super().__init__()
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1:
            raise UsageError(f"size must be an int >= 1, got {size!r}")
        self._sliced = sliced
        self._rng = stream("buffer") if rng is None else rng
        self._store = Store(int(size))

    @property
    def size(self) -> int:
        """Capacity in items."""
        return self._store.size

    @property
    def rng(self) -> np.random.Generator:
        """Random generator for sampling."""
        return self._rng

    @property
    def store(self) -> Store:
        """The items, which all views share."""
        return self._store

    def as_replay(self) -> DequeSamples:
        """Returns this buffer as middleware of a task takes replay buffers."""
        from dicore_compat.deque.samples import DequeSamples

        return DequeSamples(self)

    # ---- actions

    def push(self, data: object, meta: Mapping[str, Any] | None = None) -> BufferedData:
        """Stores an object; the oldest one is removed if the buffer is full.

        Args:
            data: Any object; it is not copied (see `clone_object`).
            meta: Facts about it.

        Returns:
            The item: `data`, `index` and `meta`.
        """
        with self._store.changing():
            item: BufferedData = self._through("push", self._push, data, meta)
            return item

    def _push(self, data: object, meta: Mapping[str, object] | None = None) -> BufferedData:
        return self._store.add(data, dict(meta or {}))

    def sample(self, size: int | None = None, *args: object, **kwargs: object) -> list[Any]:
        """Draws items.

        Args:
            size: B; None: all of `indices`.
            *args: For middleware.
            **kwargs: `indices`: draw among these items; `replace`: items may occur repeatedly;
                `sample_range`: draw from this slice of the items, oldest first;
                `ignore_insufficient`: return fewer than B if there are fewer; `groupby`: draw B
                groups of items with the same value of this key of `meta`, or of this function of
                the item; `unroll_len`: draw windows of this length, each within a group. Others are
                for middleware.

        Returns:
            B items, whose `meta` is a copy; with `groupby`, B lists of items. The data of an item
            that is drawn repeatedly are copied from the second time on, so that changing one sample
            does not change another one of the draw.

        Raises:
            ReplayUnderflowError: there are fewer than B, without `replace` or
                `ignore_insufficient`.
            UsageError: neither `size` nor `indices` is given, or `unroll_len` without `groupby`.
        """
        with self._store.changing():
            return _apart(self._through("sample", self._sample, size, *args, **kwargs), set())

    def _sample(
        self,
        size: int | None = None,
        indices: Sequence[str] | bool | None = None,
        replace: bool = False,
        sample_range: slice | None = None,
        ignore_insufficient: bool = False,
        groupby: GroupKey | None = None,
        unroll_len: int | None = None,
    ) -> list[Any]:
        if isinstance(indices, bool):  # sample(size, replace), as of other buffers
            replace, indices = indices, None
        found = [*indices] if indices is not None else self._store.order()
        if sample_range is not None:
            found = found[sample_range]
        items = self.get_by_indices(found) if groupby is not None or indices is not None else None
        if size is None and items is None:
            raise UsageError("sample: pass size or indices")
        if groupby is None:
            if unroll_len is not None:
                raise UsageError("unroll_len needs groupby", hint='groupby="episode" or a function')
            if size is None:
                return items or []
            chosen = self._chosen(len(found), size, replace, ignore_insufficient, "items")
            return [self._store.get(found[each]) for each in chosen]
        groups = _groups(items or [], groupby)
        candidates = _windows(groups, unroll_len, sliced=self._sliced)
        wanted = len(candidates) if size is None else size
        chosen = self._chosen(len(candidates), wanted, replace, ignore_insufficient, "groups")
        return [self._cut(candidates[each], unroll_len) for each in chosen]

    def _chosen(
        self, count: int, size: int, replace: bool, ignore_insufficient: bool, what: str
    ) -> list[int]:
        if size < 1 and not (ignore_insufficient and size == 0):
            raise UsageError(f"size must be >= 1, got {size}")
        if size > count and not (replace and count):
            if not ignore_insufficient:
                raise ReplayUnderflowError(
                    f"cannot sample: asked {size}, have {count} {what} (replace={replace})",
                    hint="collect more, or pass replace=True or ignore_insufficient=True",
                    context={"asked": size, "have": count},
                )
            size = count
        chosen: list[int] = self._rng.choice(count, size, replace=replace).tolist() if size else []
        return chosen

    def _cut(self, group: list[BufferedData], unroll_len: int | None) -> list[BufferedData]:
        if unroll_len is None or self._sliced:
            return group
        start = int(self._rng.integers(0, len(group) - unroll_len + 1))
        return group[start : start + unroll_len]

    def update(
        self, index: str, data: object = None, meta: Mapping[str, object] | None = None
    ) -> bool:
        """Replaces the data and the meta of an item, unless they are None.

        Returns:
            Whether there is such an item.

        Raises:
            UsageError: the index is that of an item of another buffer. A buffer that has loaded a
                state does not know: indices from before the state are its own.
        """
        with self._store.changing():
            return bool(self._through("update", self._update, index, data, meta))

    def _update(
        self, index: str, data: object = None, meta: Mapping[str, object] | None = None
    ) -> bool:
        return self._store.change(index, data, None if meta is None else dict(meta))

    def delete(self, index: str | Iterable[str]) -> None:
        """Removes one or several items; unknown indices are ignored.

        Raises:
            UsageError: an index is that of an item of another buffer.
        """
        with self._store.changing():
            self._through("delete", self._delete, index)

    def _delete(self, index: str | Iterable[str]) -> None:
        for each in [index] if isinstance(index, str) else list(index):
            self._store.remove(each)

    def clear(self) -> None:
        """Removes all items."""
        with self._store.changing():
            self._through("clear", self._clear)

    def _clear(self) -> None:
        for index in [*self._store.order()]:
            self._store.remove(index)

    # ---- reading

    def count(self) -> int:
        """Number of items."""
        return len(self._store)

    __len__ = count

    def get(self, idx: int | str) -> BufferedData:
        """Returns the item at a position (0: the oldest), or with an index.

        Raises:
            UsageError: there is none.
        """
        with self._store.lock:
            if isinstance(idx, str):
                return self.get_by_index(idx)
            order = self._store.order()
            if not -len(order) <= idx < len(order):
                raise UsageError(f"no item {idx}: the buffer has {len(order)}")
            return self.get_by_index(order[idx])

    def __getitem__(self, idx: int) -> Tree:
        """Returns the data at a position, as a data set of torch does.

        Raises:
            IndexError: there are fewer items.
        """
        if not -len(self) <= idx < len(self):
            raise IndexError(f"no item {idx}: the buffer has {len(self)}")
        return self.get(idx).data

    def get_by_index(self, index: str) -> BufferedData:
        """Returns the item with an index.

        Raises:
            UsageError: there is none.
        """
        item = self._store.get(index)
        if item is None:
            raise UsageError(f"no item has the index {index!r}; it was removed or never pushed")
        return item

    def get_by_indices(self, indices: Iterable[str]) -> list[BufferedData]:
        """Returns the items with these indices, in this order."""
        with self._store.lock:
            return [self.get_by_index(each) for each in indices]

    def export_data(self) -> list[BufferedData]:
        """Returns all items, oldest first."""
        with self._store.lock:
            return self.get_by_indices(self._store.order())

    def import_data(self, data_with_meta: Iterable[Any]) -> None:
        """Pushes items, or pairs of data and meta."""
        for each in data_with_meta:
            data, meta = (
                (each.data, each.meta) if isinstance(each, BufferedData) else (each[0], each[1])
            )
            self.push(data, meta)

    def __iter__(self) -> Iterator[BufferedData]:
        return iter(self.export_data())

    # ---- state

    def state_dict(self) -> StateDict:
        """Returns items, middleware that has a state, and the state of the random generator.

        Data and meta may be nested dicts and lists of arrays, tensors and plain values.
        """
        with self._store.lock:
            items = self.export_data()
            return {
                "data": [each.data for each in items],
                "meta": [each.meta for each in items],
                "index": [str(each.index) for each in items],
                "pushed": self._store.pushed,
                "middleware": [_state_of(fn) for fn in self._middleware],
                "rng": self._rng.bit_generator.state,
            }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned; sampling continues identically.

        Raises:
            ReplayCapacityError: the items do not fit into this buffer.
            UsageError: the middleware with a state is not that of the saved buffer, or the state is
                of another kind of buffer.
        """
        check_kind(state, "index", "items")
        count = len(state["index"])
        if count > self.size:
            raise ReplayCapacityError(
                f"the state has {count} items, the buffer's size is {self.size}",
                hint=f"set size={count} or more",
            )
        with_state = [fn for fn in self._middleware if hasattr(fn, "load_state_dict")]
        states = [each for each in state["middleware"] if each is not None]
        if len(with_state) != len(states):
            raise UsageError(
                f"the state has {len(states)} middleware with a state, this buffer"
                f" {len(with_state)}",
                hint="add the same middleware before loading",
            )
        with self._store.changing():
            self._store.forget_name()
            self._clear()
            for data, meta, index in zip(state["data"], state["meta"], state["index"], strict=True):
                self._store.pushed = int(index, 16)
                self._store.add(data, dict(meta))
            self._store.pushed = int(state["pushed"])
        for fn, each in zip(with_state, states, strict=True):
            fn.load_state_dict(each)
        self._rng.bit_generator.state = dict(state["rng"])

    def save_data(self, file: str | Path) -> None:
        """Writes the state atomically to `file`, a folder of arrays and a manifest."""
        write_state(Path(file), self.state_dict())

    def load_data(self, file: str | Path) -> None:
        """Reads what `save_data` wrote."""
        self.load_state_dict(read_state(Path(file)))


def _apart(drawn: list[object], seen: set[int]) -> list[Any]:
    """Returns items, or lists of them, with own data where those were drawn before."""
    found: list[Any] = []
    for each in drawn:
        if isinstance(each, list):
            found.append(_apart(each, seen))
        elif isinstance(each, BufferedData) and id(each.data) in seen:
            found.append(replace(each, data=copy.deepcopy(each.data)))
        else:
            found.append(each)
            seen.add(id(getattr(each, "data", None)))
    return found


def _state_of(fn: object) -> object:
    return fn.state_dict() if hasattr(fn, "state_dict") else None


def _groups(items: Iterable[BufferedData], groupby: GroupKey) -> list[list[BufferedData]]:
    """Returns items by the value of `groupby`, in the order of their first."""
    groups: dict[Hashable, list[BufferedData]] = {}
    for item in items:
        if isinstance(groupby, str) and groupby not in item.meta:
            raise UsageError(
                f"groupby='{groupby}': the item {item.index} has no such key in meta",
                hint=f"it has {', '.join(map(str, item.meta)) or 'none'}",
            )
        key = item.meta[groupby] if isinstance(groupby, str) else groupby(item)
        groups.setdefault(key, []).append(item)
    return [*groups.values()]


def _windows(
    groups: list[list[BufferedData]], unroll_len: int | None, *, sliced: bool
) -> list[list[BufferedData]]:
    """Returns what can be drawn: groups that have a window, or all windows if `sliced`."""
    if unroll_len is None:
        return groups
    if unroll_len < 1:
        raise UsageError(f"unroll_len must be >= 1, got {unroll_len}")
    long = [group for group in groups if len(group) >= unroll_len]
    if not sliced:
        return long
    return [
        group[start : start + unroll_len]
        for group in long
        for start in range(0, len(group) - unroll_len + 1, unroll_len)
    ]
