"""A worker that is killed while it is started costs an episode at most, or says so."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from dicore.errors import EnvCreateError
from dicore_plugins.env_managers import AsyncEnvManager, SyncSubprocessManager
from dicore_plugins.env_managers.subprocess.process import Worker
from tests.plugins.env_managers.toy_envs import CountEnv

OPTIONS = {"envs_per_worker": 1, "max_retry": 2, "retry_waiting_time": 0.0}
MANAGERS: list[Any] = [
    lambda: SyncSubprocessManager([CountEnv] * 2, OPTIONS),
    lambda: AsyncEnvManager([CountEnv] * 2, {**OPTIONS, "children": "process"}),
]


@pytest.fixture
def kill_before(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Returns a function that lets worker 1 be killed before the n-th call of a method."""

    def plan(method: str, first: str | None, number: int) -> None:
        original, left = getattr(Worker, method), [number]

        def called(self: Worker, *args: Any, **kwargs: Any) -> Any:
            if self.ids[0] == 1 and first in (None, args[0]):
                left[0] -= 1
                if not left[0]:
                    os.kill(self.pid, signal.SIGKILL)
                    self._process.join(60)
            return original(self, *args, **kwargs)

        monkeypatch.setattr(Worker, method, called)

    return plan


@pytest.mark.parametrize("make", MANAGERS, ids=["sync", "async"])
@pytest.mark.parametrize("number", [2, 3, 4], ids=["first memory", "restart", "next memory"])
def test_a_worker_killed_before_it_gets_memory_is_started_again(
    make: Any, number: int, kill_before: Any
) -> None:
    """Its first files are the time limits, the next ones the memory of the transport."""
    kill_before("send_files", None, number)
    with closing(make()) as manager:
        manager.launch()
        if number > 2:
            os.kill(manager.worker_pids()[1], signal.SIGKILL)
        abnormal = []
        while len(abnormal) < 8:
            answer = manager.step(dict.fromkeys(manager.ready_obs, 0))
            abnormal += [each.info.get("abnormal", False) for i, each in answer.items() if i == 1]
        assert sum(abnormal) == (number > 2)


@pytest.mark.parametrize("make", MANAGERS, ids=["sync", "async"])
@pytest.mark.parametrize("point", [("send_files", None), ("post", "has_layers")])
def test_a_worker_killed_before_it_has_environments_is_named(
    make: Any, point: Any, kill_before: Any
) -> None:
    kill_before(*point, 1)
    with closing(make()) as manager:
        with pytest.raises(EnvCreateError, match=r"env 1 could not be made: .* SIGKILL"):
            manager.launch()
        assert not manager.worker_pids()
