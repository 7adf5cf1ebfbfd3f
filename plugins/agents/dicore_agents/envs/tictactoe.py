"""Tic-tac-toe, for two agents that act in turn, with a perfect opponent."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import gymnasium
import numpy as np
from gymnasium.spaces import MultiDiscrete

from dicore.data import Tree
from dicore_agents.envs.form import Actions, Floats, Seen, agents_space, numbers, turn_mask

if TYPE_CHECKING:
    from dicore.data import Info

__all__ = ["TicTacToe"]

_LINES: Final = (
    (0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6),
)  # fmt: skip
Board = tuple[int, ...]
"""Nine cells: 0 empty, 1 of the agent that is to play, -1 of the other one."""


class TicTacToe(gymnasium.Env[Tree, Tree]):
    """Two agents set marks in turn; three in a row win. Perfect players draw.

    `obs` is float32 [2, 19]: own marks (9), those of the other agent (9), and whether it is the
    agent's turn. Actions are int64 [2], the cell; only that of the agent `to_play` counts.
    `action_mask` [2, 9] allows it the empty cells, and the agent that waits action 0 alone. Both
    agents play to the end, so there is no `alive`. Rewards are float32 [2]: 1 and -1 at the end, or
    0. Who sets a mark on another loses.
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012 - see gymnasium.Env
    agent_ids = ("player_0", "player_1")

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = agents_space(numbers(2, 19), masked=9)
        self.action_space = MultiDiscrete([9, 9])
        self.reward_space = numbers(2, low=-1.0)
        self._board: Board = (0,) * 9
        self.to_play = 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Seen, Info]:
        """Clears the board; agent 0 begins."""
        super().reset(seed=seed)
        self._board, self.to_play = (0,) * 9, 0
        return self._seen(), {}

    def step(self, action: Actions) -> tuple[Seen, Floats, bool, bool, Info]:
        """Sets a mark of the agent that is to play."""
        mover, cell = self.to_play, int(action[self.to_play])
        won = 0
        if self._board[cell]:
            won = -1
        else:
            self._board = _after(self._board, cell)
            won = int(_has_lost(self._board))
        self.to_play = 1 - mover
        reward = np.zeros(2, np.float32)
        reward[mover], reward[1 - mover] = won, -won
        return self._seen(), reward, bool(won) or 0 not in self._board, False, {}

    def scripted_action(self, side: int) -> np.int64:
        """Returns the first of the best actions of the agent that is to play."""
        cells = _empty(self._board) or [0]
        return np.int64(max(cells, key=lambda cell: -_value(_after(self._board, cell))))

    def render(self) -> str:
        """Draws the board."""
        own = "xo"[self.to_play], "ox"[self.to_play]
        signs = ["." if not mark else own[mark < 0] for mark in self._board]
        return "\n".join("".join(signs[row : row + 3]) for row in (0, 3, 6))

    def _seen(self) -> Seen:
        board = np.array(self._board)
        mine, theirs = board > 0, board < 0
        obs = np.zeros((2, 19), np.float32)
        obs[self.to_play] = [*mine, *theirs, 1]
        obs[1 - self.to_play] = [*theirs, *mine, 0]
        legal = (board == 0).astype(np.int8)
        if not legal.any():
            legal[:] = 1
        return {"obs": obs, "action_mask": turn_mask(2, self.to_play, legal)}


def _after(board: Board, cell: int) -> Board:
    """Returns the board as the next agent sees it."""
    return tuple(-1 if at == cell else -mark for at, mark in enumerate(board))


def _has_lost(board: Board) -> bool:
    """Returns whether the agent that would be to play has lost."""
    return any(board[a] + board[b] + board[c] == -3 for a, b, c in _LINES)


@cache
def _value(board: Board) -> int:
    """Returns the result of perfect play for the agent that is to play."""
    if _has_lost(board):
        return -1
    return max((-_value(_after(board, cell)) for cell in _empty(board)), default=0)


def _empty(board: Board) -> list[int]:
    return [cell for cell, mark in enumerate(board) if not mark]
