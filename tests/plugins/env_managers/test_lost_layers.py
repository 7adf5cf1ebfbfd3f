"""Layers with a state of their own outlive the worker or thread in which they were."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest

from dicore.errors import EnvError
from dicore_plugins.env_managers import (
    AsyncEnvManager,
    BaseEnvManager,
    SyncSubprocessManager,
    ThreadEnvManager,
)

from .toy_envs import CountEnv, Tired

AWAKE = threading.Event()


class Hangs(CountEnv):
    """Hangs in the third step of its second episode."""

    def step(self, action: Any) -> Any:
        if len(self.seeds) == 2 and self.count == 2:
            AWAKE.wait(30)
        return super().step(action)


def hangs() -> Any:
    return Tired(Hangs(length=4))


def counts() -> Any:
    return Tired(CountEnv(length=4))


def stepped(manager: Any, steps: int) -> list[float]:
    """Returns the last element of env 0's observations: the step, and all steps before."""
    found: list[float] = []
    while len(found) < steps:
        answer = manager.step(dict.fromkeys(manager.ready_obs, 0))
        if 0 in answer and not answer[0].info.get("abnormal"):
            found.append(float(answer[0].obs[3]))
    return found


MANAGERS: dict[str, Callable[..., Any]] = {
    "sync": SyncSubprocessManager,
    "async": lambda makes, options: AsyncEnvManager(makes, {"children": "process", **options}),
}


@pytest.mark.parametrize("name", MANAGERS)
def test_of_a_killed_worker(name: str) -> None:
    options = {"envs_per_worker": 2, "restart_budget": 2}
    with closing(MANAGERS[name]([counts] * 2, options)) as manager:
        manager.launch()
        assert stepped(manager, 6) == [2, 4, 6, 8, 6, 8]
        os.kill(manager.worker_pids()[0], signal.SIGKILL)
        # that of the killed episode's begin: four steps
        assert stepped(manager, 6) == [6, 8, 10, 12, 10, 12]
        os.kill(manager.worker_pids()[0], signal.SIGKILL)
        state = manager.state_dict()["layers"][0]
        assert stepped(manager, 2) == [10, 12]
    assert state[0]["steps"] in (8, 10)


def test_a_question_to_a_dead_worker_names_its_environment() -> None:
    with closing(SyncSubprocessManager([counts] * 2, {"envs_per_worker": 1})) as manager:
        manager.launch()
        os.kill(manager.worker_pids()[1], signal.SIGKILL)
        with pytest.raises(EnvError, match=r"env 1 gave no answer to attribute: .*KILL"):
            manager.env_attr("tag")


def test_of_a_thread_that_hangs() -> None:
    options = {"restart_budget": 1, "step_timeout": 0.3}
    with closing(ThreadEnvManager([hangs], options)) as manager:
        manager.launch()
        assert stepped(manager, 9) == [2, 4, 6, 8, 6, 8, 6, 8, 10]
        AWAKE.set()


class NanAtTheEnd(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The first object of a process returns NaN in the last step of its first episode."""

    made = 0

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.number = type(self).made
        type(self).made += 1

    def step(self, action: Any) -> Any:
        obs, reward, terminated, *rest = self.env.step(action)
        bad = terminated and self.number == 0
        return obs, np.nan if bad else reward, terminated, *rest

    def close(self) -> None:
        self.env.closed = 1


class Usable(CountEnv):
    def step(self, action: Any) -> Any:
        if self.closed:
            raise RuntimeError("it is closed")
        return super().step(action)


def ends_badly() -> Any:
    return NanAtTheEnd(Usable(length=2))


def test_an_environment_that_is_renewed_at_its_end_is_reset() -> None:
    """Its worker resets it ahead, and has to reset the new one as well."""
    options = {"restart_budget": 1, "retry_type": "renew"}
    workers = {**options, "envs_per_worker": 2, "context": "fork"}
    for manager in (
        BaseEnvManager([ends_badly], options),
        SyncSubprocessManager([ends_badly, partial(CountEnv, 1, 0)], workers),
    ):
        NanAtTheEnd.made = 0
        with closing(manager):
            manager.launch()
            assert stepped(manager, 5) == [1, 1, 2, 1, 2]
