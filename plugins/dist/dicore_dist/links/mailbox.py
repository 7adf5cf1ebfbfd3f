"""The actors of the link `ray`; this module imports little, for processes that only run them."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any, Final

__all__ = ["Mailbox", "Shelf"]

_LOOK_S: Final = 0.5
"""Seconds after which a process that waits for a request is told that there is none."""


class Mailbox:
    """Keeps requests until a process takes them, and hands its answers back; runs as an actor."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[object] = asyncio.Queue()
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count()

    async def ask(self, version: str, name: str, data: object) -> Any:
        """Leaves a request; returns its answer."""
        number = next(self._numbers)
        self._asked[number] = asyncio.get_running_loop().create_future()
        await self._waiting.put((number, version, name, data))
        return await self._asked[number]

    async def take(self) -> object:
        """Returns the next request; None if there is none for a while."""
        try:
            return await asyncio.wait_for(self._waiting.get(), _LOOK_S)
        except TimeoutError:
            return None

    async def answer(self, number: int, content: object) -> None:
        """Answers a request."""
        self._asked.pop(number).set_result(content)


class Shelf:
    """Stores values by name in the object store, as their owner; runs as an actor."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, object]] = {}
        self._numbers = itertools.count()

    def put(self, name: str, value: object) -> None:
        """Stores a value."""
        import ray

        self._found[name] = next(self._numbers), ray.put(value)

    def get(self, name: str) -> list[Any]:
        """Returns the address of a value, in a list that keeps Ray from reading it; or nothing."""
        return [self._found[name][1]] if name in self._found else []

    def stamp(self, name: str) -> int | None:
        """Returns the number of what has a name."""
        return self._found[name][0] if name in self._found else None

    def remove(self, names: list[str]) -> None:
        """Forgets names; Ray frees the memory."""
        for name in names:
            self._found.pop(name, None)
