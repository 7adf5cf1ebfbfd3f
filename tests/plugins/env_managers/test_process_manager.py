"""The example of a manager with worker processes: the data of `base`, and workers that fail."""

from __future__ import annotations

import importlib
import multiprocessing.forkserver
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from dicore.errors import EnvStepError
from dicore.testing.compare import difference
from dicore.testing.env_manager import EnvManagerContract
from dicore_plugins.env_managers import BaseEnvManager

from .toy_envs import CountEnv, cartpole, played

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module", autouse=True)
def _fork_server() -> Iterator[None]:
    """Starts the process from which workers are forked, and stops it after the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["process_manager", "gymnasium", __name__])
        server = multiprocessing.forkserver._forkserver  # type: ignore[attr-defined]
        server.ensure_running()
        yield
        server._stop()


def make(env_fn: Sequence[Callable[[], Any]], options: Mapping[str, Any] | None = None) -> Any:
    return importlib.import_module("process_manager").ProcessManager(env_fn, options)


class TestProcessManager(EnvManagerContract):
    def make(
        self, env_fn: Sequence[Callable[[], Any]], options: Mapping[str, Any] | None = None
    ) -> Any:
        return make(env_fn, options)


def test_the_data_is_that_of_base() -> None:
    wanted = played(BaseEnvManager([cartpole] * 5), 60)
    found = played(make([cartpole] * 5, {"workers": 2}), 60)
    assert difference(wanted, found) == ""


def test_a_killed_worker_loses_its_environments_only() -> None:
    with closing(make([CountEnv] * 4, {"workers": 2, "restart_budget": 1})) as manager:
        manager.launch()
        manager.step(dict.fromkeys(range(4), 0))
        pids = manager.worker_pids()
        assert (pids[0], pids[1]) == (pids[2], pids[3])
        os.kill(pids[1], signal.SIGKILL)
        answer = manager.step({0: 0, 1: 0})
        assert "SIGKILL" in answer[1].info["error"]
        answer = manager.step(dict.fromkeys(range(4), 0))
        assert "ProcessLost" in answer[3].info["error"], "it was not stepped when it was lost"
        assert [int(manager.ready_obs[each][3]) for each in range(4)] == [3, 1, 2, 0]
        os.kill(manager.worker_pids()[1], signal.SIGKILL)
        with pytest.raises(EnvStepError, match=r"env 1: .*SIGKILL"):
            manager.step(dict.fromkeys(range(4), 0))
