"""Storage of observations that are not arrays of numbers: text, sequences, graphs.

Shapes: K environments.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dicore.errors import EnvSpaceError
from dicore.values import Tree
from dicore_plugins.env_managers.faults import Fault

if TYPE_CHECKING:
    from dicore.data.tree import Array
    from dicore.interfaces.env import Space

__all__ = ["Objects"]


class Objects:
    """Stores observations as a column of objects [K].

    Args:
        path: Path in the observation, for messages; '' for the whole observation.
        space: The space, which says what is valid.
    """

    large = False

    def __init__(self, path: str, space: Space) -> None:
        self.path = path
        self._space = space
        self._name = f"observation {path}".rstrip()

    def empty(self, count: int) -> Array:
        """Returns a column for `count` observations."""
        return np.full(count, None, object)

    def stack(self, obs: list[Tree], room: Tree = None) -> Array | None:
        """Copies K observations into a column; see `Leaf.stack`."""
        block = self.empty(len(obs))
        return block if all(self.try_write(block, *row) for row in enumerate(obs)) else None

    def stacked(self, block: Tree, count: int) -> Array | None:
        """Returns observations that are stacked already; see `Leaf.stacked`."""
        good = isinstance(block, np.ndarray) and block.shape == (count,)
        return block if good and all(map(self._space.contains, block)) else None

    def fault(self, obs: Tree) -> Fault | None:
        """Returns why one observation is invalid, or None."""
        if self._space.contains(obs):
            return None
        text = f"{self._name} is {obs!r}, which is not in {self._space}"
        return Fault(EnvSpaceError, text, {"path": self.path})

    def outside(self, block: Tree) -> dict[str, str]:
        """Returns no messages: a value out of bounds is invalid."""
        return {}

    def try_write(self, block: Tree, row: int, obs: Tree) -> bool:
        """Stores a copy of one observation; returns whether it is valid."""
        if not self._space.contains(obs):
            return False
        self.write(block, row, obs)
        return True

    def write(self, block: Tree, row: int, obs: Tree) -> None:
        """Stores a copy of one observation."""
        block[row] = copy.deepcopy(obs)

    def put(self, block: Tree, rows: Sequence[int], source: object) -> None:
        """Copies observations into some rows."""
        block[rows] = source

    def copy(self, source: Tree, room: Tree = None) -> Tree:
        """Returns a copy of a column."""
        if room is None:
            return source.copy()
        room[...] = source
        return room

    def overwrite(self, block: Tree) -> None:
        """Overwrites a column with values that are no valid observation."""
        block.fill(None)
