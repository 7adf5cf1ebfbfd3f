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
    "flag huge": (
        lambda obs, reward, *_: (obs, reward, 10**400, False, {}),
        "neither True nor False",
    ),
    "flag no": (lambda obs, reward, *_: (obs, reward, "no", False, {}), "terminated is 'no'"),
    "four results": (lambda *good: good[:4], "returned an invalid result: not enough values"),
    "no result": (lambda *_: None, "returned an invalid result: cannot unpack"),
    "info per agent": (lambda *good: (*good[:4], {"abnormal": np.array([False, True])}), ""),
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


@pytest.mark.parametrize("name", MANAGERS)
def test_every_manager_says_what_is_wrong(name: str) -> None:
    """An environment for each case; a vector env fails as a whole."""
    cases = [[case] for case in CASES] if name == "vector" else [list(CASES)]
    for some in cases:
        makes = [partial(Odd, CASES[case][0]) for case in some]
        with closing(MANAGERS[name](makes, {"restart_budget": 1})) as manager:
            manager.launch()
            found: list[list[Any]] = [[] for _ in some]
            while min(map(len, found)) < 3:
                answer = manager.step(dict.fromkeys(manager.ready_obs, 0))
                for env_id in answer:
                    found[env_id].append(answer[env_id])
        for case, steps in zip(some, found, strict=True):
            judge(name, case, steps[1])


def judge(name: str, case: str, step: Any) -> None:
    said = CASES[case][1]
    if said in ("ends", "goes on"):
        assert bool(step.done) == (said == "ends"), case
        assert step.info.get("eval_episode_return", 1.0) == 1.0, case
        return
    assert np.any(step.info["abnormal"]), case
    if name == "vector" and case in ("two flags", "four results", "no result"):
        return  # SyncVectorEnv itself unpacks them
    told = step.info.get("error", "")
    assert not said or any(each in told for each in said.split("|")), (case, told)


@pytest.mark.parametrize("name", ["base", "sync", "thread"])
def test_rewards_of_several_numbers_are_numbers(name: str) -> None:
    pair = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    rewards = ([1j, 0], ["1", "2"], [None, 1.0], [1.0])
    makes = [partial(Both, partial(_pays, np.array(reward)), pair) for reward in rewards]
    with closing(MANAGERS[name](makes, {"restart_budget": 1})) as manager:
        manager.launch()
        assert (manager.step(dict.fromkeys(range(4), 0)).value.reward == 1).all()
        answer = manager.step(dict.fromkeys(range(4), 0))
        for env_id in answer:
            assert "is not an array of shape (2,)" in answer[env_id].info["error"]


class Both(Odd):
    def step(self, action: Any) -> Any:
        obs, reward, *rest = super().step(action)
        return obs, reward if np.ndim(reward) else np.ones(2), *rest


def _pays(reward: Any, obs: Any, _: Any, *rest: Any) -> Any:
    return obs, reward, *rest
