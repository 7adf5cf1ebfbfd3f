"""Memory of observations that is used again: two blocks in turn, or spoilt ones to find readers.

Shapes: N environments.
"""

from __future__ import annotations

from collections import deque
from typing import Any

__all__ = ["Memory", "memory_of"]


class Memory:
    """Hands out blocks [N, ...] that are valid until the next but one turn.

    Args:
        storage: How the observations are stored.
        env_num: N.
        debug: Hand out fresh blocks, and overwrite each by NaN (integers: the largest) when its
            time is over, so that a reader who comes too late fails loudly.
    """

    def __init__(self, storage: Any, env_num: int, *, debug: bool) -> None:
        self._storage = storage
        self._env_num = env_num
        self._debug = debug
        self._reuse = storage.roomy and not debug
        self._blocks: list[Any] = [None] * 4
        self._turn = 0
        self._out: deque[list[Any]] = deque([[], []])

    def turn(self) -> None:
        """Begins a turn: what was handed out two turns ago is not valid any more."""
        self._turn = 1 - self._turn
        if self._debug:
            for block in self._out.popleft():
                self._storage.spoil(block)
            self._out.append([])

    def room(self) -> Any | None:
        """Returns memory for the observations of this turn, or None: make some."""
        return self._block(self._turn) if self._reuse else None

    def copy(self, block: Any) -> Any:
        """Returns a copy of this turn's observations."""
        room = self._block(2 + self._turn) if self._reuse else None
        return self._storage.copy(block, room)

    def hand_out(self, *blocks: Any) -> None:
        """Takes notice of blocks that leave in this turn."""
        if self._debug:
            self._out[-1].extend(blocks)

    def _block(self, index: int) -> Any:
        if self._blocks[index] is None:
            self._blocks[index] = self._storage.empty(self._env_num)
        return self._blocks[index]


def memory_of(storage: Any, env_num: int, *, debug: bool) -> Memory | None:
    """Returns memory that is used again, or None for small observations.

    Fresh memory costs them no more than copying them into old.
    """
    return Memory(storage, env_num, debug=debug) if storage.roomy or debug else None
