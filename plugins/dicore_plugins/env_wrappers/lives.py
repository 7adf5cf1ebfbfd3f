"""Wrappers of games with several lives, and with a button that starts them (Atari)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gymnasium

from dicore.data import Info, State, StateDict, Tree
from dicore.errors import ConfigError
from dicore_plugins.env_wrappers.wrappers import Step

if TYPE_CHECKING:
    from dicore.interfaces.env import Env

__all__ = ["EpisodicLife", "FireReset"]


class EpisodicLife(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Ends the episode when a life is lost; the next episode continues the game (Mnih et al. 2015).

    A reset after a lost life takes one no-op step and ignores its seed. All other resets start a
    new game. To be able to resume within a game, the wrapper records the game's seed and actions.

    Args:
        env: Has the number of lives in `info["lives"]`, or `unwrapped.ale.lives()`.
        noop_action: The no-op action.
    """

    def __init__(self, env: Env, noop_action: Any = 0) -> None:
        super().__init__(env)
        self._noop = noop_action
        self._ale = getattr(env.unwrapped, "ale", None)
        self._lives = 0
        self._continues = False
        self._seed: int | None = None
        self._options: dict[str, object] | None = None
        self._actions: list[Tree] = []

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Tree, Info]:
        if self._continues:
            obs, _, terminated, truncated, info = self._play(self._noop)
            if not terminated and not truncated:
                self._continues = False
                return obs, info
        self._seed, self._options = seed, options
        return self._begin()

    def step(self, action: Tree) -> Step:
        before = self._lives
        obs, reward, terminated, truncated, info = self._play(action)
        lost = 0 < self._lives < before  # at 0 lives the game decides when it is over
        self._continues = lost and not terminated and not truncated
        return obs, reward, terminated or lost, truncated, info

    def state_dict(self) -> StateDict:
        """Returns what brings back a game that the next episode continues."""
        return {"continues": self._continues, "seed": self._seed, "options": self._options,
                "actions": list(self._actions) if self._continues else []}  # fmt: skip

    def load_state_dict(self, state: State) -> None:
        """Starts the game of `state_dict` and repeats its actions."""
        self._continues = False
        if state["continues"]:
            self._seed, self._options = state["seed"], state["options"]
            self._begin()
            for action in state["actions"]:
                self._play(action)
            self._continues = True

    def _begin(self) -> tuple[Tree, Info]:
        self._continues, self._actions = False, []
        obs, info = self.env.reset(seed=self._seed, options=self._options)
        self._lives = self._count(info)
        return obs, info

    def _play(self, action: Tree) -> Step:
        result = self.env.step(action)
        self._actions.append(action)
        self._lives = self._count(result[4])
        return result

    def _count(self, info: Mapping[str, Any]) -> int:
        if self._ale is not None:
            return int(self._ale.lives())
        if "lives" not in info:
            raise ConfigError(
                "env.env_wrapper: 'episodic_life' needs an environment with lives, but wraps"
                f" {self.env}, whose info has no 'lives'"
            )
        return int(info["lives"])


class FireReset(gymnasium.Wrapper[Tree, Tree, Tree, Tree]):
    """Presses FIRE after each reset, in games that wait for it (Mnih et al. 2015).

    If the episode ends by that, the next one begins without it.

    Args:
        env: One of the meanings of its actions, `unwrapped.get_action_meanings()`, is `FIRE`.
    """

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        meanings: list[str] = getattr(env.unwrapped, "get_action_meanings", list)()
        if "FIRE" not in meanings:
            raise ConfigError(
                "env.env_wrapper: 'fire_reset' needs an environment with an action FIRE, but wraps"
                f" {env}, with the actions {', '.join(meanings) or env.action_space}"
            )
        self._fire = meanings.index("FIRE")

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Tree, Info]:
        self.env.reset(seed=seed, options=options)
        obs, _, terminated, truncated, info = self.env.step(self._fire)
        if terminated or truncated:
            return self.env.reset(options=options)
        return obs, info
