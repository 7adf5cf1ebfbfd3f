"""Infos: those that do not pickle, and those that an environment changes later."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from dicore.testing.compare import copied, difference
from dicore_plugins.env_managers import (
    AsyncEnvManager,
    BaseEnvManager,
    SyncSubprocessManager,
    ThreadEnvManager,
)
from dicore_plugins.env_managers.subprocess import results

from .toy_envs import CountEnv


class Reuses(CountEnv):
    """Has one info, with one array, which it clears at a reset."""

    def __init__(self) -> None:
        super().__init__(length=2)
        self.info: dict[str, Any] = {}
        self.place = np.zeros(2)

    def reset(self, **kwargs: Any) -> Any:
        obs, _ = super().reset(**kwargs)
        self.info.clear()
        self.place[:] = 0
        return obs, self.info

    def step(self, action: Any) -> Any:
        *result, _ = super().step(action)
        self.place += 1
        self.info["place"] = self.place
        self.info["count"] = self.count
        return *result, self.info


MANAGERS: dict[str, Callable[..., Any]] = {
    "base": BaseEnvManager,
    "thread": ThreadEnvManager,
    "sync": lambda makes, **o: SyncSubprocessManager(makes, o),
    "async": lambda makes, **o: AsyncEnvManager(makes, {"children": "process", **o}),
    "async inplace": lambda makes: AsyncEnvManager(
        makes, {"children": "process", "reset_inplace": True}
    ),
}


@pytest.mark.parametrize("name", MANAGERS)
def test_the_last_info_is_that_of_the_last_step(name: str) -> None:
    with closing(MANAGERS[name]([Reuses] * 2)) as manager:
        manager.launch()
        found: list[Any] = []
        shown: list[Any] = []
        while len(found) < 4:
            answer = manager.step(dict.fromkeys(manager.ready_obs, 0))
            if 0 in answer:
                shown.append(answer[0].info)
                found.append(copied(answer[0].info))
    assert not difference(shown, found)  # infos that were returned do not change
    assert [each["count"] for each in found] == [1, 2, 1, 2]
    assert [each["place"].tolist() for each in found] == [[1, 1], [2, 2]] * 2


class Locked(CountEnv):
    """Its infos do not pickle, in part."""

    lock = threading.Lock()

    def reset(self, **kwargs: Any) -> Any:
        return super().reset(**kwargs)[0], {"lock": self.lock}

    def step(self, action: Any) -> Any:
        *result, _ = super().step(action)
        return *result, {"lock": self.lock, "count": self.count}


@pytest.mark.parametrize("name", ["sync", "async"])
def test_what_does_not_pickle_is_left_out(name: str, caplog: pytest.LogCaptureFixture) -> None:
    results._warn_of_info.cache_clear()
    infos: list[Any] = []
    with (
        caplog.at_level(logging.WARNING, "dicore.env"),
        closing(MANAGERS[name]([Locked] * 2)) as manager,
    ):
        manager.launch()
        while len(infos) < 12:
            answer = manager.step(dict.fromkeys(manager.ready_obs, 0))
            infos += [answer[env_id].info for env_id in answer]
    assert {info["count"] for info in infos} == {1, 2, 3, 4, 5}
    assert not any("lock" in info or "abnormal" in info for info in infos)
    warned = [each.message for each in caplog.records]
    assert len(warned) == 1
    assert warned[0].startswith("info['lock'] does not pickle and is left out: TypeError")


class Unreadable:
    """Pickles, and raises when it is unpickled."""

    def __reduce__(self) -> Any:
        return int, ("no number",)


class Odd(CountEnv):
    """One of its infos cannot be unpickled."""

    def step(self, action: Any) -> Any:
        *result, _ = super().step(action)
        return *result, {"odd": Unreadable()} if self.tag and self.count == 3 else {}


@pytest.mark.parametrize("name", ["sync", "async"])
def test_what_does_not_unpickle_is_a_failed_step(name: str) -> None:
    makes = [lambda: Odd(0, 10), lambda: Odd(1, 10)]
    cuts: list[tuple[int, str]] = []
    with closing(MANAGERS[name](makes, envs_per_worker=1, restart_budget=9)) as manager:
        manager.launch()
        while len(cuts) < 2:
            answer = manager.step(dict.fromkeys(manager.ready_obs, 0))
            found = ((env_id, answer[env_id].info) for env_id in answer)
            cuts += [(env_id, info["error"]) for env_id, info in found if "error" in info]
    assert [env_id for env_id, _ in cuts] == [1, 1]
    assert all("step 3 " in text and "invalid literal for int" in text for _, text in cuts)
