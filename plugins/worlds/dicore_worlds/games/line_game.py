"""Games in which a line of marks wins: tic-tac-toe, connect four and others, as bitboards.

A state is uint64 [N, 2]: the marks of who is to play, and those of the other side. Cell (row,
column) of H rows and W columns has bit column * (H + 1) + H - 1 - row: each column has a bit above
its highest cell that is never set, so that lines do not run from one column into the next.

Shapes: N states, A actions.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from dicore.errors import ConfigError
from dicore_worlds.games.interface import Moved, SupportsRules

__all__ = ["GAMES", "LineGame", "rules_of"]

Bits: TypeAlias = npt.NDArray[np.uint64]
Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Floats: TypeAlias = npt.NDArray[np.float32]


class LineGame:
    """Two sides set marks by turns; who first has a line of marks wins. It holds `SupportsRules`.

    Args:
        height: H.
        width: W; (H + 1) W is at most 64.
        length: Marks of a line that wins.
        drops: Marks fall to the lowest empty cell of a column, and the actions are the W columns;
            otherwise they are the H W cells, row by row.

    Raises:
        ConfigError: the board has more than 64 bits.
    """

    def __init__(self, height: int, width: int, length: int, *, drops: bool) -> None:
        if (height + 1) * width > 64:
            raise ConfigError(
                f"a board of {height} rows and {width} columns needs {(height + 1) * width} bits",
                hint="(rows + 1) * columns is at most 64",
            )
        self.obs_shape = (2, height, width)
        self.actions = width if drops else height * width
        self._length, self._drops = length, drops
        column = np.arange(width) * (height + 1)
        place = column + np.arange(height - 1, -1, -1)[:, None]
        self._cells: Bits = np.uint64(1) << place.reshape(-1).astype(np.uint64)
        self._bottoms: Bits = np.uint64(1) << column.astype(np.uint64)
        self._columns: Bits = self._bottoms * np.uint64(2**height - 1)
        self._board: Bits = np.bitwise_or.reduce(self._cells)
        self._shifts = [np.uint64(each) for each in (1, height, height + 1, height + 2)]

    def initial(self, count: int) -> Bits:
        """Returns empty boards."""
        return np.zeros((count, 2), np.uint64)

    def legal(self, state: Bits) -> Bools:
        """Returns which cells are empty, or which columns have an empty cell."""
        free = ~(state[:, 0] | state[:, 1])[:, None]
        legal: Bools = (free & (self._columns if self._drops else self._cells)) != 0
        return legal

    def step(self, state: Bits, action: Ints) -> Moved:
        """Sets a mark of who is to play."""
        own, other = state[:, 0], state[:, 1]
        marks = own | other
        if self._drops:  # the carry of the addition stops at the lowest empty cell
            own = own | ((marks + self._bottoms[action]) & self._columns[action] & ~marks)
        else:
            own = own | self._cells[action]
        won = self._has_line(own)
        over: Bools = won | ((own | other) == self._board)
        return Moved(np.stack([other, own], 1), won.astype(np.float32), over)

    def observe(self, state: Bits) -> Floats:
        """Returns own marks and those of the other side, float32 [N, 2, H, W]."""
        planes = (state[:, :, None] & self._cells) != 0
        found: Floats = planes.reshape(-1, *self.obs_shape).astype(np.float32)
        return found

    def restore(self, obs: Floats) -> Bits:
        """Returns the states of observations."""
        planes = obs.reshape(len(obs), 2, -1) > 0.5
        state: Bits = (planes * self._cells).sum(-1, dtype=np.uint64)
        return state

    def symmetries(self) -> tuple[Ints, Ints]:
        """Returns the turned and mirrored boards; where marks fall, the mirrored one alone."""
        _, height, width = self.obs_shape
        board = np.arange(height * width).reshape(height, width)
        boards = [board, board[:, ::-1]]
        if not self._drops:
            boards += [each[::-1] for each in boards]
            boards += [each.T for each in boards if height == width]
        cells = np.stack([each.reshape(-1) for each in boards])
        moves = np.stack([np.arange(width), np.arange(width)[::-1]]) if self._drops else cells
        return np.concatenate([cells, cells + board.size], 1), moves

    def moves(self, state: Bits) -> Ints:
        """Returns the number of marks on boards."""
        marks = (state[:, 0] | state[:, 1])[:, None] & self._cells
        counts: Ints = np.count_nonzero(marks, 1)
        return counts

    def _has_line(self, marks: Bits) -> Bools:
        """Returns whether marks [N] have a line in one of the four directions."""
        found = np.zeros(len(marks), np.uint64)
        for shift in self._shifts:
            line = marks
            for count in range(1, self._length):
                line = line & (marks >> (shift * np.uint64(count)))
            found |= line
        lines: Bools = found != 0
        return lines


GAMES: dict[str, SupportsRules] = {
    "tictactoe": LineGame(3, 3, 3, drops=False),
    "connect_four": LineGame(6, 7, 4, drops=True),
}
"""Rules by the name of the game."""


def rules_of(obs_shape: tuple[int, ...], actions: int) -> SupportsRules | None:
    """Returns the rules of the game in `GAMES` with observations of a shape; None: there is none.

    Args:
        obs_shape: Shape of one observation.
        actions: Number of actions.
    """
    same = (each for each in GAMES.values() if each.obs_shape == obs_shape)
    return next((each for each in same if each.actions == actions), None)
