"""The items of a deque buffer, in order, with undo.

A change that fails half-way is undone, so that a buffer is as it was before the call.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from dicore.errors import UsageError

__all__ = ["BufferedData", "Store"]


class _Index(str):
    """The index of an item that left a buffer: it tells this buffer from others."""

    buffer: str


@dataclass
class BufferedData:
    """An item of a buffer.

    Args:
        data: Any object.
        index: Its id in the buffer; later items have greater ones.
        meta: Facts about it.
    """

    data: Any
    index: str
    meta: dict[str, Any] = field(default_factory=dict)


Listener = Callable[[BufferedData, bool], None]
"""Is called with an item that was added or changed (True) or removed (False)."""


class Store:
    """Items by index, oldest first.

    Args:
        size: Capacity; adding to a full store removes the oldest item.

    Attributes:
        lock: Held while a change is going on.
        pushed: Number of items added so far.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.lock = threading.RLock()
        self.pushed = 0
        self._name: str | None = secrets.token_hex(8)  # a copy of the buffer has the same items
        self._items: dict[str, BufferedData] = {}
        self._order: list[str] | None = []
        self._first = 0
        self._listeners: list[Listener] = []
        self._undo: list[Callable[[], None]] = []
        self._depth = 0

    def listen(self, listener: Listener) -> None:
        """Calls a function for each item now, and for each change from now on."""
        self._listeners.append(listener)
        for item in self._items.values():
            listener(item, True)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Undoes the changes made in the block if it raises."""
        with self.lock:
            mark = len(self._undo)
            self._depth += 1
            try:
                yield
            except BaseException:
                while len(self._undo) > mark:
                    self._undo.pop()()
                raise
            finally:
                self._depth -= 1
                if not self._depth:
                    self._undo.clear()

    def forget_name(self) -> None:
        """Takes the indices of any buffer from now on: the items come from another one's state."""
        self._name = None

    # ---- writing

    def add(self, data: object, meta: dict[str, object]) -> BufferedData:
        """Adds an item; returns a copy of it that shares the data."""
        item = BufferedData(data, f"{self.pushed:016x}", meta)
        before = self.pushed

        def undo() -> None:
            self._drop(item.index)
            self.pushed = before

        self._undo.append(undo)
        self.pushed += 1
        self._put(item)
        while len(self._items) > self.size:
            self.remove(self.order()[0])
        return self._handed_out(item)

    def remove(self, index: str) -> bool:
        """Removes an item; returns whether it was there."""
        item = self._items.get(self._own(index))
        if item is None:
            return False
        self._undo.append(lambda: self._put(item))
        self._drop(index)
        return True

    def change(self, index: str, data: object, meta: dict[str, object] | None) -> bool:
        """Sets data and meta of an item, unless they are None; returns whether it is there."""
        old = self._items.get(self._own(index))
        if old is None:
            return False
        new = BufferedData(
            old.data if data is None else data, old.index, old.meta if meta is None else meta
        )
        self._undo.append(lambda: self._put(old))
        self._put(new)
        return True

    def _put(self, item: BufferedData) -> None:
        if item.index not in self._items and self._order is not None:
            if self._order and item.index < self._order[-1]:  # a removal is undone
                self._order = None
            else:
                self._order.append(item.index)
        self._items[item.index] = item
        for listener in self._listeners:
            listener(item, True)

    def _drop(self, index: str) -> None:
        item = self._items.pop(index)
        order = self._order
        if order is not None:
            if self._first < len(order) and order[self._first] == index:
                self._first += 1
            else:
                self._order = None
        for listener in self._listeners:
            listener(item, False)

    # ---- reading

    def order(self) -> list[str]:
        """Returns the indices of all items, oldest first."""
        if self._order is None:
            self._order, self._first = sorted(self._items), 0
        elif self._first > 64 and 2 * self._first > len(self._order):
            self._order, self._first = self._order[self._first :], 0
        return self._order[self._first :] if self._first else self._order

    def get(self, index: str) -> BufferedData | None:
        """Returns a copy of an item that shares its data; None: it is not there."""
        item = self._items.get(self._own(index))
        return None if item is None else self._handed_out(item)

    def _handed_out(self, item: BufferedData) -> BufferedData:
        index: str = item.index
        if self._name is not None:
            index = _Index(index)
            index.buffer = self._name
        return BufferedData(item.data, index, dict(item.meta))

    def _own(self, index: str) -> str:
        """Returns an index if it is of no other buffer; all buffers count from 0."""
        if self._name is not None and getattr(index, "buffer", self._name) != self._name:
            raise UsageError(
                f"the index {index!r} is that of an item of another buffer",
                hint="use the buffer that the item was pushed to or sampled from, or its views",
            )
        return index

    def __contains__(self, index: str) -> bool:
        return index in self._items

    def __len__(self) -> int:
        return len(self._items)
