"""The example of a manager with worker processes: the data of `base`, and workers that fail."""

from __future__ import annotations

import importlib
import multiprocessing.forkserver
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import psutil
import pytest

from dicore.errors import EnvStepError
from dicore.testing.compare import copied, difference
from dicore.testing.env_manager import EnvManagerContract
from dicore_plugins.env_managers import BaseEnvManager

from .toy_envs import CountEnv, Tired

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


@pytest.mark.parametrize("workers", [None, 2])
def test_the_data_is_that_of_base(workers: int | None) -> None:
    wanted = played(BaseEnvManager([cartpole] * 5), 120)
    found = played(make([cartpole] * 5, {"workers": workers}), 120)
    assert difference(wanted, found) == ""


def test_running_episodes_are_replayed_in_workers() -> None:
    with closing(make([cartpole] * 3, {"workers": 2})) as manager:
        manager.seed(3)
        manager.launch()
        for step in range(40):
            manager.step(dict.fromkeys(range(3), step % 2))
        state, ready = copied(manager.state_dict()), copied(manager.ready_obs.value)
    for twin in (make([cartpole] * 3, {"workers": 2}), BaseEnvManager([cartpole] * 3)):
        with closing(twin):
            twin.load_state_dict(state)
            twin.launch()
            assert twin.brought_back
            assert difference(copied(twin.ready_obs.value), ready) == ""


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


class Unpicklable(CountEnv):
    def step(self, action: Any) -> Any:
        *rest, _ = super().step(action)
        return *rest, {"lock": (lambda: None) if self.count == 2 else 0}


def test_an_info_that_does_not_pickle_is_a_fault_and_no_hang() -> None:
    with closing(make([CountEnv, Unpicklable], {"restart_budget": 1})) as manager:
        manager.launch()
        manager.step({0: 0, 1: 0})
        answer = manager.step({0: 0, 1: 0})
        assert "pickle" in answer[1].info["error"]
        assert not answer[0].info
        manager.step({0: 0, 1: 0})


class Endless(CountEnv):
    def close(self) -> None:
        time.sleep(600)


def test_workers_that_hang_when_closed_are_killed() -> None:
    manager = make([partial(Endless, tag) for tag in range(3)])
    manager.launch()
    processes = [psutil.Process(pid) for pid in manager.worker_pids().values()]
    begun = time.monotonic()
    manager.close()
    assert time.monotonic() - begun < 5
    assert not any(process.is_running() for process in processes)


def test_a_worker_ends_with_the_main_process(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(EXAMPLES)!r})\n"
        "import os, signal, process_manager as p\n"
        "from tests.plugins.env_managers.toy_envs import CountEnv\n"
        "if __name__ == '__main__':\n"
        "    manager = p.ProcessManager([CountEnv, CountEnv])\n"
        "    manager.launch()\n"
        "    print(*manager.worker_pids().values(), flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    script = tmp_path / "main.py"
    script.write_text(code)
    import subprocess
    import sys

    env = {**os.environ, "PYTHONPATH": str(EXAMPLES.parent)}
    done = subprocess.run(
        [sys.executable, str(script)],
        env=env, stdout=subprocess.PIPE, text=True, timeout=120, check=False,
    )  # fmt: skip
    pids = [int(pid) for pid in done.stdout.split()]
    assert len(pids) == 2
    until = time.monotonic() + 10
    while any(map(psutil.pid_exists, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(psutil.pid_exists, pids))
