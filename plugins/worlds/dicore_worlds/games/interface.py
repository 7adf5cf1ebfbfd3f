"""The contract of games whose rules are known: many states at once, as arrays.

Shapes: N states, A actions, `...` the shape of one observation.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import attrs
import numpy as np
import numpy.typing as npt

from dicore.data import Tree

__all__ = ["Moved", "SupportsRules"]


@attrs.frozen
class Moved:
    """What comes of moves in N states.

    Args:
        state: The states after them, in which the other side is to play.
        reward: float32 [N]; result of a game that is over, for who moved: 1 won, 0 drawn, -1 lost.
            0 of games that go on.
        over: bool [N]; the game is over.
    """

    state: Tree
    reward: npt.NDArray[np.float32]
    over: npt.NDArray[np.bool_]


@runtime_checkable
class SupportsRules(Protocol):
    """Rules of a game of two sides that move by turns, and see everything.

    States are arrays [N, ...] (or a tree of such) in the view of who is to play; those of games
    that are over are valid arguments, whatever is returned for them.
    """

    @property
    def obs_shape(self) -> tuple[int, ...]:
        """Shape of one observation."""

    @property
    def actions(self) -> int:
        """A, the number of moves that there are in any state."""

    def initial(self, count: int) -> Tree:
        """Returns N = `count` states before the first move."""

    def legal(self, state: Tree) -> npt.NDArray[np.bool_]:
        """Returns which moves are legal, bool [N, A]."""

    def step(self, state: Tree, action: npt.NDArray[np.int64]) -> Moved:
        """Returns what comes of moves, int64 [N], which are legal unless the game is over."""

    def observe(self, state: Tree) -> npt.NDArray[np.float32]:
        """Returns what a network sees of states, float32 [N, ...]."""

    def restore(self, obs: npt.NDArray[np.float32]) -> Tree:
        """Returns the states of observations [N, ...]: the reverse of `observe`."""

    def symmetries(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Returns which turned or mirrored games are the same game; the first is the game itself.

        Returns:
            The places from which the numbers of an observation come, int64 [S, numbers], and those
            from which the moves come, int64 [S, A].
        """

    def moves(self, state: Tree) -> npt.NDArray[np.int64]:
        """Returns the number of moves that led to states, int64 [N]."""
