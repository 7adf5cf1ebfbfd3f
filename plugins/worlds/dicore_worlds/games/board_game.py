"""A board game as an environment: both sides by turns, or one side against an opponent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary

from dicore.data import Tree
from dicore_worlds.games.interface import SupportsRules
from dicore_worlds.games.minimax import minimax

if TYPE_CHECKING:
    from dicore.data import Info

__all__ = ["BoardGame"]

_KEPT = 20_000
"""States of which the opponent remembers what moves are worth."""


class BoardGame(gymnasium.Env[Tree, np.int64]):
    """Plays a game by its rules.

    Observations are a Dict: `obs` float32, what `SupportsRules.observe` returns of who acts;
    `action_mask` int8 [A], the legal moves; `player`, 0 or 1, the side that acts (0 began). The
    reward is that of who acted: 1, 0 or -1 at the end. A move that is not legal loses.

    With an opponent, the side that acts is drawn for each episode, and the opponent's move is made
    within the step.

    Args:
        rules: Of the game.
        opponent: `minimax` draws among the best moves of a search, `random` among the legal ones;
            None: the agent plays both sides.
        depth: Moves that `minimax` looks ahead.
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012 - see gymnasium.Env

    def __init__(
        self,
        rules: SupportsRules,
        opponent: str | None = None,
        depth: int = 9,
    ) -> None:
        self.render_mode = "ansi"
        self.observation_space = Dict(
            obs=Box(0.0, 1.0, rules.obs_shape, np.float32),
            action_mask=MultiBinary(rules.actions),
            player=Discrete(2),
        )
        self.action_space = Discrete(rules.actions)
        self.rules, self._opponent = rules, opponent
        self._state, self._player = rules.initial(1), 0
        self._depth, self._worth = depth, dict[bytes, npt.NDArray[np.float32]]()

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Tree, Info]:
        """Begins a game."""
        super().reset(seed=seed)
        self._state, self._player = self.rules.initial(1), 0
        if self._opponent is not None and self.np_random.random() < 0.5:
            self._move(self._opposing())
        return self._seen(), {}

    def step(self, action: np.int64) -> tuple[Tree, float, bool, bool, Info]:
        """Moves for the side that acts, and then for the opponent."""
        if not self.rules.legal(self._state)[0, action]:
            return self._seen(), -1.0, True, False, {}
        reward, over = self._move(int(action))
        if not over and self._opponent is not None:
            lost, over = self._move(self._opposing())
            reward = -lost
        return self._seen(), reward, over, False, {}

    def render(self) -> str:
        """Draws the board: x began."""
        own, other = self.rules.observe(self._state)[0]
        signs = np.where(own > 0, "xo"[self._player], np.where(other > 0, "ox"[self._player], "."))
        return "\n".join("".join(row) for row in signs)

    def _move(self, action: int) -> tuple[float, bool]:
        """Returns the reward of who moves, and whether the game is over."""
        moved = self.rules.step(self._state, np.array([action]))
        self._state, self._player = moved.state, 1 - self._player
        return float(moved.reward[0]), bool(moved.over[0])

    def _opposing(self) -> int:
        if self._opponent == "random":
            best = self.rules.legal(self._state)[0]
        else:
            worth = self._values()
            best = worth == worth.max()
        return int(self.np_random.choice(np.flatnonzero(best)))

    def _values(self) -> npt.NDArray[np.float32]:
        """Returns what moves are worth by `minimax`, [A]; it is remembered."""
        key = np.asarray(self._state).tobytes()
        if key not in self._worth:
            if len(self._worth) >= _KEPT:
                self._worth.clear()
            self._worth[key] = minimax(self.rules, self._state, self._depth)[0]
        return self._worth[key]

    def _seen(self) -> Tree:
        legal = self.rules.legal(self._state)[0]
        return {
            "obs": self.rules.observe(self._state)[0],
            "action_mask": (legal if legal.any() else ~legal).astype(np.int8),
            "player": np.int64(self._player),
        }
