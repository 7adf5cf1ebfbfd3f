"""One side of a game as an environment; the others are played within its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from dicore.data import Tree
from dicore.errors import ConfigError, EnvError
from dicore.interfaces.env import EnvSpec
from dicore_agents.league.opponents import RandomOpponent
from dicore_agents.league.sides import Sides

if TYPE_CHECKING:
    from dicore.data import Info
    from dicore.interfaces.env import Env

__all__ = ["OneSide"]

_STARTS = 100
"""Episodes in a row that may end before the side's first choice."""


class OneSide(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Shows one side of a game of several agents, and lets opponents play the others.

    Steps in which the side has no choice are made within the step before; their rewards are summed.
    What it is paid before its first choice comes with the reward of this choice.
    `info["side"]` is the number of the side. See `Sides` for what a side sees.

    Args:
        env: An environment of several agents, each with a reward of its own.
        sides: Names of the agents by side; None: each agent is a side.
        seat: Number of the side; None: drawn for each episode.
        opponent: `random`, or `scripted`: what the environment's `scripted_action(agent)` returns.

    Raises:
        ConfigError: the sides do not fit the environment, or it has no scripted opponent.
    """

    state_space = None

    def __init__(
        self,
        env: Env,
        sides: Sequence[Sequence[str]] | None = None,
        seat: int | None = None,
        opponent: str = "random",
    ) -> None:
        super().__init__(env)
        self.sides = Sides(EnvSpec.of(env), sides)
        if seat is not None and seat >= len(self.sides):
            raise ConfigError(
                f"env.env_wrapper: one_side.seat: got {seat}; there are {len(self.sides)} sides,"
                " numbered from 0"
            )
        view: Any = self.sides.spec
        self.observation_space, self.action_space = view.observation, view.action
        self.reward_space, self.agent_ids, self.agent_num = view.reward, view.agents, 1
        self.state_space = view.state
        self._fixed, self._seat = seat, seat or 0
        self._obs: Any = None
        self._paid: Any = 0.0
        self._choose = self._chooser(opponent)

    def _chooser(self, opponent: str) -> Callable[[int, Tree], Tree]:
        """Returns what chooses the action of a side, [1, ...], by its number and what it sees."""
        if opponent == "scripted":
            scripted = getattr(self.env.unwrapped, "scripted_action", None)
            if scripted is None:
                raise ConfigError(
                    "env.env_wrapper: one_side.opponent: the environment has no scripted opponent",
                    hint="write a method scripted_action(agent), or set opponent=random",
                )
            return lambda side, seen: np.stack(
                [np.asarray(scripted(agent)) for agent in self.sides.agents(side)]
            )
        drawn = RandomOpponent(self.sides.spec, self.np_random)

        def draw(side: int, seen: Tree) -> Tree:
            drawn.rng = self.np_random
            return drawn.act(np.zeros(1, np.int64), seen)

        return draw

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Tree, Info]:
        """Starts an episode; opponents act until the side has a choice."""
        for _ in range(_STARTS):
            obs, info = self.env.reset(seed=seed, options=options)
            if seed is not None:
                self.np_random = np.random.default_rng([seed, 1])
            self._note(obs)
            count = len(self.sides)
            self._seat = int(self.np_random.integers(count)) if self._fixed is None else self._fixed
            over, self._paid = False, 0.0
            while not over and not self._acts(self._seat):
                obs, reward, terminated, truncated, info = self._stepped(None)
                self._paid = self._paid + self._earned(reward)
                over = terminated or truncated
            if not over:
                return self._seen(self._seat), {**info, "side": self._seat}
            seed = None
        raise EnvError(f"{_STARTS} episodes in a row ended before the side's first choice")

    def step(self, action: Tree) -> tuple[Tree, Tree, bool, bool, Info]:
        """Acts for the side, then lets opponents act until it has a choice again."""
        total, self._paid = self._paid, 0.0
        given: Tree | None = action
        while True:
            _, reward, terminated, truncated, info = self._stepped(given)
            total = total + self._earned(reward)
            if terminated or truncated or self._acts(self._seat):
                break
            given = None
        if self.sides.of_one:
            total = float(total)
        return self._seen(self._seat), total, terminated, truncated, {**info, "side": self._seat}

    def _stepped(self, action: Tree | None) -> tuple[Tree, Any, bool, bool, Info]:
        """Steps all agents; None: the side has no choice."""
        actions = self.sides.idle(1)
        if action is not None:
            self.sides.put(actions, self._seats(self._seat), np.asarray(action)[None])
        for side in self.sides.others(self._seat):
            if self._acts(side):
                chosen = self._choose(side, self._seen(side, stacked=True))
                self.sides.put(actions, self._seats(side), chosen)
        obs, reward, terminated, truncated, info = self.env.step(actions[0])
        self._note(obs)
        return obs, np.asarray(reward, np.float32), terminated, truncated, info

    def _earned(self, reward: Any) -> Any:
        return self.sides.earned(reward[None], self._seats(self._seat))[0]

    def _note(self, obs: Any) -> None:
        self._obs = {key: np.asarray(leaf)[None] for key, leaf in obs.items()}

    def _acts(self, side: int) -> bool:
        return bool(self.sides.acts(self._obs, self._seats(side))[0])

    def _seen(self, side: int, *, stacked: bool = False) -> Tree:
        seen = self.sides.seen(self._obs, self._seats(side))
        if stacked:
            return seen
        if isinstance(seen, Mapping):
            return {key: leaf[0] for key, leaf in seen.items()}
        return seen[0]

    @staticmethod
    def _seats(side: int) -> Any:
        return np.array([side], np.int64)
