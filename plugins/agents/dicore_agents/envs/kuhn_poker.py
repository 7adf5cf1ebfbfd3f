"""Kuhn poker (Kuhn 1950), the smallest game of poker that is worth bluffing in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import gymnasium
import numpy as np
from gymnasium.spaces import MultiDiscrete

from dicore.data import Tree
from dicore.errors import EnvError
from dicore_agents.envs.form import Actions, Floats, Seen, agents_space, numbers, turn_mask

if TYPE_CHECKING:
    from dicore.data import Info

__all__ = ["KuhnPoker"]

PASS, BET = 0, 1
_OVER: Final = {(PASS, PASS): 1, (BET, BET): 2, (PASS, BET, BET): 2}
"""Chips that the higher card wins, by the moves that end in showing cards."""
_FOLDED: Final = {(BET, PASS): 0, (PASS, BET, PASS): 1}
"""The agent that wins one chip, by the moves in which the other one gives up."""


class KuhnPoker(gymnasium.Env[Tree, Tree]):
    """Two agents have a card each of three, have paid a chip, and pass or bet one more in turn.

    After a bet, to pass is to give up. The first agent loses 1/18 of a chip per game if both play
    well.

    `obs` is float32 [2, 10]: own card (3), the moves so far (3 times pass, bet), and whether it is
    the agent's turn. Actions are int64 [2], 0 to pass, 1 to bet; only that of the agent `to_play`
    counts. `action_mask` [2, 2] allows it both, and the agent that waits action 0 alone. Both
    agents play to the end, so there is no `alive`. Rewards are float32 [2], chips won at the end.

    `reset(options={"cards": (2, 0)})` deals these cards; 2 is the highest.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - see gymnasium.Env
    agent_ids = ("player_0", "player_1")

    def __init__(self) -> None:
        self.observation_space = agents_space(numbers(2, 10), masked=2)
        self.action_space = MultiDiscrete([2, 2])
        self.reward_space = numbers(2, low=-2.0, high=2.0)
        self._cards, self._moves = (0, 1), ()
        self.to_play = 0

    _cards: tuple[int, ...]
    _moves: tuple[int, ...]

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Seen, Info]:
        """Deals two cards; agent 0 begins.

        Raises:
            EnvError: `options["cards"]` are not two different cards.
        """
        super().reset(seed=seed)
        dealt = (options or {}).get("cards")
        cards = self.np_random.permutation(3)[:2] if dealt is None else dealt
        self._cards = tuple(int(each) for each in cards)
        if len({*self._cards} & {0, 1, 2}) != 2 or len(self._cards) != 2:
            raise EnvError(
                f"reset: cards {dealt}: expected two of 0, 1, 2", hint="for instance (2, 0)"
            )
        self._moves, self.to_play = (), 0
        return self._seen(), {}

    def step(self, action: Actions) -> tuple[Seen, Floats, bool, bool, Info]:
        """Passes or bets, for the agent that is to play."""
        self._moves += (int(action[self.to_play]),)
        self.to_play = 1 - self.to_play
        reward = np.zeros(2, np.float32)
        if won := _OVER.get(self._moves):
            reward[:] = (won, -won) if self._cards[0] > self._cards[1] else (-won, won)
        elif (winner := _FOLDED.get(self._moves)) is not None:
            reward[:] = -1
            reward[winner] = 1
        return self._seen(), reward, bool(reward.any()), False, {}

    def _seen(self) -> Seen:
        obs = np.zeros((2, 10), np.float32)
        obs[(0, 1), self._cards] = 1
        for number, move in enumerate(self._moves):
            obs[:, 3 + 2 * number + move] = 1
        obs[self.to_play, 9] = 1
        return {"obs": obs, "action_mask": turn_mask(2, self.to_play, np.ones(2, np.int8))}
