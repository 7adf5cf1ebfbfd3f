"""Workers at their own pace: who dies, hangs or is slow costs the others nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from dicore.interfaces.env_manager import EnvState
from dicore.testing.component import Component
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.env_managers import AsyncEnvManager
from dicore_plugins.models.dqn.model import DQN
from dicore_plugins.policies import DQNPolicy
from dicore_registry import default
from dicore_registry.queries import look_up
from tests.plugins.env_managers.toy_envs import CountEnv

from .waits import Waits


def manager_of(makes: list[Callable[[], Any]], **options: Any) -> closing[Any]:
    manager = AsyncEnvManager(makes, {"children": "process", "step_wait_timeout": 0.0, **options})
    manager.seed(0)
    manager.launch()
    return closing(manager)


def act(manager: Any) -> Any:
    return manager.step(dict.fromkeys(manager.ready_obs, 0))


def test_slow_steps_and_resets_do_not_slow_the_others(tmp_path: Path) -> None:
    file = tmp_path / "go on"
    makes = [
        partial(Waits, 0, "step", file), partial(Waits, 1, "reset", file, 2),
        partial(CountEnv, 2), partial(CountEnv, 3),
    ]  # fmt: skip
    with manager_of(makes) as manager:
        counts = dict.fromkeys(range(4), 0)
        while min(counts[2], counts[3]) < 51:
            for env_id in act(manager):
                counts[env_id] += 1
        assert [manager.env_state(i) for i in (0, 1)] == [EnvState.STEP, EnvState.RESET]
        assert (counts[0], counts[1]) == (1, 2)
        file.touch()
        while min(counts.values()) < 20:
            for env_id in (answer := act(manager)):
                counts[env_id] += 1
                assert answer[env_id].obs[1] == env_id


def test_by_name_it_steps_in_other_processes() -> None:
    component = Component(look_up(default(), "env_manager/async_subprocess"), default())
    with closing(component.build({}, env_fn=[partial(CountEnv, i) for i in (0, 1)])) as manager:
        assert isinstance(manager, AsyncEnvManager)
        manager.seed(0)
        manager.launch()
        assert len(manager.worker_pids()) == 2
        assert os.getpid() not in manager.worker_pids().values()


def test_a_reset_that_is_done_before_a_step_counts_as_an_answer(tmp_path: Path) -> None:
    """Else the step of the only other environment would wait for the one that hangs."""
    step_file, reset_file = tmp_path / "step", tmp_path / "reset"
    makes = [
        partial(Waits, 0, "step", step_file), partial(Waits, 1, "reset", reset_file, 2),
        partial(CountEnv, 2),
    ]  # fmt: skip
    with manager_of(makes, wait_num=2) as manager:
        for env_id in (0, 1, 1):
            manager.step({env_id: 0})
        manager.step({0: 0}, block=False)
        assert [manager.env_state(i) for i in (0, 1)] == [EnvState.STEP, EnvState.RESET]
        reset_file.touch()
        until = time.monotonic() + 30
        while not manager._pool._crew.of[1]._readable():
            assert time.monotonic() < until
            time.sleep(0.01)
        manager.step({2: 0})
        assert manager.env_state(0) is EnvState.STEP
        step_file.touch()


@pytest.mark.parametrize("where", ["step", "reset"])
def test_limits_hold_while_others_are_quick(where: str, tmp_path: Path) -> None:
    makes = [partial(Waits, 0, where, tmp_path / "never", 2), partial(CountEnv, 1)]
    limits = {f"{where}_timeout": 0.8, "restart_budget": 9, "max_retry": 9}
    with manager_of(makes, wait_num=1, retry_waiting_time=0.0, **limits) as manager:
        hanging, first = manager.worker_pids()[0], time.monotonic()
        while manager.worker_pids().get(0) == hanging:
            assert time.monotonic() < first + 60
            act(manager)


def test_answers_that_came_while_the_main_process_was_busy_are_not_late(tmp_path: Path) -> None:
    """An evaluation, or many updates, may take longer than the limit of a step."""
    limit, file = 1.0, tmp_path / "go on"
    makes = [partial(CountEnv, 0), partial(Waits, 1, "step", file)]
    with manager_of(makes, wait_num=1, step_timeout=limit) as manager:
        pids = manager.worker_pids()
        while manager._pool.pending != {1}:
            act(manager)
        file.touch()
        while not manager._pool._crew.of[1]._readable():
            time.sleep(0.01)
        time.sleep(1.2 * limit)
        while manager._pool.pending:
            answer = manager.recv()
        assert not answer[1].info.get("abnormal")
        assert manager.worker_pids() == pids


def test_a_worker_killed_while_it_resets_begins_again(tmp_path: Path) -> None:
    makes = [partial(Waits, 0, "reset", tmp_path / "never", 2), partial(CountEnv, 1)]
    with manager_of(makes, wait_num=1, retry_waiting_time=0.0) as manager:
        while manager.env_state(0) is not EnvState.RESET:
            act(manager)
        pid = manager.worker_pids()[0]
        time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
        steps = 0
        while 0 not in manager.ready_obs:
            steps += len(act(manager))
        assert steps > 2, "the other one goes on while a worker starts"
        assert manager.worker_pids()[0] != pid
        assert manager.ready_obs[0][3] <= 1


def test_a_killed_worker_costs_the_collector_its_episode() -> None:
    makes = [partial(gymnasium.make, "CartPole-v1")] * 3
    with manager_of(makes, restart_budget=9) as manager:
        policy = DQNPolicy({"nstep": 1}, model=DQN(4, 2, (4,)))
        collector = SampleCollector({}, manager, policy.collect_mode)
        for killed in (0, 2):
            collector.collect_batch(n_sample=64, policy_kwargs={"eps": 1.0})
            os.kill(manager.worker_pids()[killed], signal.SIGKILL)
            data = collector.collect_batch(n_sample=300, policy_kwargs={"eps": 1.0})
            assert len(data) == 300
            for env_id in range(3):
                mine = data["env_id"] == env_id
                obs, after, end = (data[key][mine] for key in ("obs", "next_obs", "end"))
                follows = (obs[1:] == after[:-1]).all(1)
                broken = (~follows & ~end[:-1]).sum()
                assert broken <= (env_id == killed), "one episode at most, of that environment"
