"""Odd rewards, flags and infos: every manager judges them as `base` does and says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from dicore_plugins.env_managers import (
    AsyncEnvManager,
    BaseEnvManager,
    SyncSubprocessManager,
    ThreadEnvManager,
    VectorEnvManager,
)

from .toy_envs import CountEnv

CASES: dict[str, tuple[Callable[..., Any], str]] = {
    "huge int": (lambda obs, _, *rest: (obs, 10**400, *rest), "reward inf is not finite"),
    "complex": (lambda obs, _, *rest: (obs, 1j, *rest), "reward 1j is not a number"),
    "two flags": (
        lambda obs, reward, *_: (obs, reward, np.array([True, False]), False, {}),
        "returned an invalid result|terminated is array",
    ),
    "flag 2": (lambda obs, reward, *_: (obs, reward, 2, False, {}), "terminated is 2"),
    "flag no": (lambda obs, reward, *_: (obs, reward, "no", False, {}), "terminated is 'no'"),
    "four results": (lambda *good: good[:4], "returned an invalid result: not enough values"),
    "no result": (lambda *_: None, "returned an invalid result: cannot unpack"),
    "info per agent": (
        lambda *good: (*good[:4], {"abnormal": np.array([False, True])}), "",
    ),
    "return no": (lambda *good: (*good[:3], True, {"eval_episode_return": "no"}), "ends"),
    "int key": (lambda *good: (*good[:4], {1: 2}), "goes on"),
}  # fmt: skip
MANAGERS: dict[str, Callable[..., Any]] = {
    "base": BaseEnvManager,
    "sync": SyncSubprocessManager,
    "thread": ThreadEnvManager,
    "async": lambda makes, options: AsyncEnvManager(makes, {"children": "process", **options}),
    "vector": lambda makes, options: VectorEnvManager(
        makes, {"vectorization_mode": "sync", **options}
    ),
}


class Odd(CountEnv):
    """Its second step is odd, in the first episode of each process."""

    def __init__(self, how: Callable[..., Any], reward_space: Any = None) -> None:
        super().__init__(length=4)
        self.how = how
        if reward_space is not None:
            self.reward_space = reward_space

    def step(self, action: Any) -> Any:
        good = super().step(action)
        return self.how(*good) if self.count == 2 and len(self.seeds) == 1 else good


@pytest.mark.parametrize("case", CASES)
def test_every_manager_says_what_is_wrong(case: str) -> None:
    how, said = CASES[case]
    for name, make in MANAGERS.items():
        with closing(make([partial(Odd, how)], {"restart_budget": 1})) as manager:
            manager.launch()
            found: list[Any] = []
            while len(found) < 4:
                answer = manager.step(dict.fromkeys(manager.ready_obs, 0))
                found += [answer[0]] if 0 in answer else []
        step = found[1]
        if said in ("ends", "goes on"):
            assert step.truncated == (said == "ends"), name
            assert step.info.get("eval_episode_return", 1.0) == 1.0, name
            continue
        assert step.info["abnormal"] is not False, name
        if name == "vector" and case in ("two flags", "four results", "no result"):
            continue  # SyncVectorEnv itself unpacks them
        assert not said or any(each in step.info["error"] for each in said.split("|")), (
            name, step.info,
        )  # fmt: skip


@pytest.mark.parametrize("reward", [[1j, 0], ["1", "2"], [None, 1.0], [1.0]], ids=str)
@pytest.mark.parametrize("name", ["base", "sync", "thread"])
def test_rewards_of_several_numbers_are_numbers(name: str, reward: Any) -> None:
    how = partial(_pays, np.array(reward))
    pair = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    with closing(MANAGERS[name]([partial(Both, how, pair)], {"restart_budget": 1})) as manager:
        manager.launch()
        assert manager.step({0: 0})[0].reward.tolist() == [1, 1]
        assert "is not an array of shape (2,)" in manager.step({0: 0})[0].info["error"]


class Both(Odd):
    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        return obs, reward if np.ndim(reward) else np.ones(2), *rest


def _pays(reward: Any, obs: Any, _: Any, *rest: Any) -> Any:
    return obs, reward, *rest
