"""Games of one step, given by a table of payoffs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from gymnasium.spaces import Box, MultiDiscrete

from dicore.data import Tree
from dicore.errors import ConfigError
from dicore_agents.envs.form import Actions, Seen, agents_space, numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from dicore.data import Info

__all__ = ["GAMES", "MatrixGame", "payoff_table"]

GAMES: dict[str, list[list[float]]] = {
    "climbing": [[11, -30, 0], [-30, 7, 6], [0, 0, 5]],
    "penalty": [[0, 0, 10], [0, 2, 0], [10, 0, 0]],
    "qtran": [[8, -12, -12], [-12, 0, 0], [-12, 0, 0]],
}
"""Payoffs of both agents, [n, n]; the corners of `penalty` on the diagonal are an option."""


class MatrixGame(gymnasium.Env[Tree, Tree]):
    """Two agents choose at once, without knowing of each other, and are paid by a table.

    An episode is one step. Observations are constant: `obs` is float32 [2, 1] and `state` float32
    [1], both 1. Actions are int64 [2], row and column of the table. If it has one number in each
    place, the reward is that number, of the team; if it has two, it is float32 [2].

    Args:
        payoff: Table [n, n], or [n, n, 2] with a payoff of each agent.

    Raises:
        ConfigError: the table has another shape.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - see gymnasium.Env
    agent_ids = ("agent_0", "agent_1")

    def __init__(self, payoff: Sequence[object] | npt.NDArray[np.float32]) -> None:
        self._payoff = payoff_table(payoff)
        self.observation_space = agents_space(numbers(2, 1), state=numbers(1))
        self.state_space = numbers(1)
        self.action_space = MultiDiscrete([len(self._payoff)] * 2)
        low, high = float(self._payoff.min()), float(self._payoff.max())
        self.reward_space = Box(low, high, self._payoff.shape[2:], np.float32)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Seen, Info]:
        """Begins a game."""
        super().reset(seed=seed)
        return self._seen(), {}

    def step(self, action: Actions) -> tuple[Seen, Tree, bool, bool, Info]:
        """Pays both agents; the game is over."""
        row, column = (int(each) for each in action)
        paid = self._payoff[row, column]
        reward = float(paid) if paid.ndim == 0 else paid.copy()
        return self._seen(), reward, True, False, {}

    def _seen(self) -> Seen:
        return {"obs": np.ones((2, 1), np.float32), "state": np.ones(1, np.float32)}


def payoff_table(payoff: object) -> npt.NDArray[np.float32]:
    """Returns payoffs as float32 [n, n] or [n, n, 2].

    Raises:
        ConfigError: they are no such table.
    """
    try:
        table = np.array(payoff, np.float32)
    except (TypeError, ValueError):
        table = np.zeros(0, np.float32)
    square = table.ndim in (2, 3) and 0 < table.shape[0] == table.shape[1]
    if not square or table.shape[2:] not in ((), (2,)) or not np.isfinite(table).all():
        raise ConfigError(
            f"env.payoff: a table of payoffs has n rows of n numbers, or of n pairs; got {payoff}",
            hint="repeat a row or a column that an agent lacks",
        )
    return table
