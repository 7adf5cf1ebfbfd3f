"""Small environments that show what a manager does with them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from dicore.data import tree_map
from dicore.testing.compare import copied
from dicore_plugins.env_managers.base.manager import BaseEnvManager

FREE = spaces.Box(-np.inf, np.inf, (4,), np.float32)


class CountEnv(gymnasium.Env[Any, Any]):
    """Counts steps; observations are float32 [4]: drawn at reset, tag, level, step.

    Args:
        tag: Tells this environment from others.
        length: Steps after which it ends; 0: never.
        truncates: It ends by truncation.
        rewards: Reward of each step, over and over; None: the action plus a half.
        reuse: Hands out one array, written anew at every step.
    """

    def __init__(
        self,
        tag: int = 0,
        length: int = 5,
        *,
        truncates: bool = False,
        rewards: tuple[Any, ...] | None = None,
        reuse: bool = False,
    ) -> None:
        self.observation_space: Any = FREE
        self.action_space: Any = spaces.Discrete(3)
        self.tag, self.length, self.truncates = tag, length, truncates
        self.rewards, self.reuse = rewards, reuse
        self.level = self.count = 0
        self.drawn = 0.0
        self.seeds: list[int | None] = []
        self.levels: list[int] = []
        self.actions: list[Any] = []
        self.closed = 0
        self._array = np.zeros(4, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None, level: int = 0
    ) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.levels.append(level)
        self.count, self.level = 0, level
        self.drawn = float(self.np_random.random())
        return self.show(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        self.count += 1
        over = self.count == self.length
        reward = (
            self.rewards[(self.count - 1) % len(self.rewards)] if self.rewards else action + 0.5
        )
        return self.show(), reward, over and not self.truncates, over and self.truncates, {}

    def show(self) -> Any:
        array = self._array if self.reuse else np.zeros(4, np.float32)
        array[:] = self.drawn, self.tag, self.level, self.count
        return array

    def close(self) -> None:
        self.closed += 1


class SpaceEnv(CountEnv):
    """Shows samples of any space; what it has shown last is in `shown`."""

    def __init__(self, space: Any, length: int = 5) -> None:
        super().__init__(length=length)
        self.observation_space = space
        self.shown: list[Any] = []

    def reset(self, *, seed: int | None = None, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        self.observation_space.seed(seed)
        return super().reset(seed=seed, **kwargs)

    def show(self) -> Any:
        self.shown.append(self.observation_space.sample())
        return self.shown[-1]


class ActEnv(CountEnv):
    """Takes the actions of any space and writes them down."""

    def __init__(self, space: Any, length: int = 0) -> None:
        super().__init__(length=length, rewards=(1.0,))
        self.action_space = space


class Faulty(CountEnv):
    """Does something wrong at the second step of its first episode.

    Args:
        tag: Tells this environment from others.
        step: Given the good results of that step, returns bad ones, or raises.
    """

    def __init__(self, step: Callable[..., Any], tag: int = 1, space: Any = FREE) -> None:
        super().__init__(tag, length=5)
        self.observation_space = space
        self._fault = step

    def step(self, action: Any) -> Any:
        good = super().step(action)
        return self._fault(*good) if len(self.seeds) == 1 and self.count == 2 else good


class BadReset(CountEnv):
    """Its reset fails, so many times in a row, from the given episode on."""

    def __init__(self, times: int, tag: int = 1, after: int = 0) -> None:
        super().__init__(tag, length=2)
        self.times, self.after = times, after

    def reset(self, **kwargs: Any) -> tuple[Any, dict[str, Any]]:
        result = super().reset(**kwargs)
        if len(self.seeds) > self.after and self.times > 0:
            self.times -= 1
            raise RuntimeError(f"no power, {self.times} to go")
        return result


class Tired(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Pays less the longer it lives, and shows it."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.steps = 0

    def step(self, action: Any) -> Any:
        self.steps += 1
        obs, reward, *rest = self.env.step(action)
        return obs + self.steps, reward / self.steps, *rest

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load_state_dict(self, state: Any) -> None:
        self.steps = state["steps"]


def cartpole() -> Any:
    return Tired(gymnasium.make("CartPole-v1", max_episode_steps=30))


def played(manager: Any, steps: int) -> list[Any]:
    """Returns all data of some steps with the manager's random actions, and its state."""
    from dicore.run.random import seed_everything

    seed_everything(3)
    found = []
    with closing(manager):
        manager.seed(3)
        manager.launch()
        for _ in range(steps):
            answer = manager.step(manager.random_action()).value
            found.append(copied([answer.obs, answer.reward, answer.terminated, answer.truncated]))
            found.append([{**info} for info in answer.info])
        found.append(copied(manager.state_dict()))
    return found


def manager_of(*envs: Any, seed: int = 0, launch: bool = True, **options: Any) -> BaseEnvManager:
    """Returns a manager of these very environments (each is handed out once, or again)."""
    options = {"retry_waiting_time": 0.0, **options}
    manager = BaseEnvManager([lambda env=env: env for env in envs], options)
    manager.seed(seed)
    if launch:
        manager.launch()
    return manager


def rollout(
    manager: Any, steps: int, act: Callable[[int], int] = lambda step: step % 3
) -> list[dict[int, Any]]:
    """Steps all that are ready; returns rows by id, copied."""
    found = []
    for step in range(steps):
        answer = manager.step(dict.fromkeys(manager.ready_obs, act(step)))
        found.append({env_id: row(answer[env_id]) for env_id in answer})
    return found


def row(timestep: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
    """Returns obs, reward, terminated, truncated, info of one timestep, copied."""
    return (
        tree_map(np.copy, timestep.obs),
        float(timestep.reward),
        timestep.terminated,
        timestep.truncated,
        dict(timestep.info),
    )


def column(manager: Any, index: int) -> dict[int, float]:
    """Returns one number of each ready observation, by id."""
    ready = manager.ready_obs
    return {env_id: float(ready[env_id][index]) for env_id in ready}


Array = npt.NDArray[Any]
