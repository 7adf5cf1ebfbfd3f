"""Checks of env managers with worker processes: kills, hangs and leftovers."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import psutil

from dicore.errors import EnvStepError
from dicore.interfaces.env_manager import IEnvManager
from dicore.testing.env_manager.play import ManagerChecks, envs, wait_for_all
from dicore.testing.scripted_env import WAKE, Fault, ScriptedEnv
from dicore.testing.suite import expect, refuses

CLOSE_S = 25.0
LATE_S = 25.0


@contextmanager
def _hangs() -> Iterator[None]:
    """Ends the hangs of threads, which nothing else can end."""
    try:
        yield
    finally:
        WAKE.set()
        time.sleep(0.05)
        WAKE.clear()


class WorkerChecks(ManagerChecks):
    """Managers that declare `deadlines` or `workers`.

    With `workers`, `worker_pids()` returns their process ids by env id.
    """

    def test_a_killed_worker_costs_an_episode(self) -> None:
        """A killed worker gives an abnormal step and a new episode; without a budget it raises."""
        self.needs("workers")
        with closing(self._open(envs(2), restart_budget=1)) as manager:
            pids = manager.worker_pids()
            expect(set(pids) == {0, 1}, f"worker_pids() has the environments {set(pids)}")
            expect(os.getpid() not in pids.values(), "an environment runs in the main process")
            psutil.Process(pids[1]).kill()
            self._until_abnormal(manager, 1)
            expect(wait_for_all(manager) == {0, 1}, "after a kill not all are ready again")
            expect(int(manager.ready_obs[1][3]) == 0, "after a kill there is no new episode")
            again = manager.worker_pids()[1]
            expect(again != pids[1] and _alive([again]), "the worker was not replaced")
            psutil.Process(again).kill()
            with refuses(EnvStepError, "a worker killed when the restart budget is used up"):
                for _ in range(4):
                    manager.step(dict.fromkeys(manager.ready_obs, 0))

    def test_a_hanging_step_ends_at_its_limit(self) -> None:
        """`step_timeout` bounds a step; exits and hangs of one environment cost it an episode."""
        self.needs("deadlines", "workers")
        faults: tuple[Fault, ...] = ("hang", "exit")
        for fault in faults:
            makes = [*envs(1), partial(ScriptedEnv, 1, fault=fault)]
            opened = self._open(makes, restart_budget=1, step_timeout=1.0)
            with _hangs(), closing(opened) as manager:
                begun = time.monotonic()
                self._until_abnormal(manager, 1)
                took = time.monotonic() - begun
                expect(took < 1 + LATE_S, f"{fault}: limit 1 s, the step took {took:.1f} s")
                expect(wait_for_all(manager) == {0, 1}, f"{fault}: not all are ready again")

    def test_close_leaves_no_process(self) -> None:
        """`close` ends all workers, also those that hang for a minute."""
        workers = "workers" in self.needs("deadlines", "workers")
        faults: tuple[Fault, ...] = ("", "close")
        for fault in faults:
            manager = self._open([partial(ScriptedEnv, tag, fault=fault) for tag in range(3)])
            pids = list(manager.worker_pids().values()) if workers else []
            begun = time.monotonic()
            with _hangs():
                manager.close()
                took = time.monotonic() - begun
            expect(took < CLOSE_S, f"closing took {took:.1f} s")
            expect(not _alive(pids), f"after close, workers are left: {pids}")
            left = workers and manager.worker_pids()
            expect(not left, f"after close, worker_pids() is {left}")

    def _open(self, makes: Any, **options: object) -> Any:
        manager = self.make(makes, options)
        try:
            manager.launch()
            wait_for_all(manager)
        except BaseException:
            manager.close()
            raise
        return manager

    def _until_abnormal(self, manager: IEnvManager, env_id: int) -> None:
        """Steps until a step of the environment is abnormal."""
        for _ in range(40):
            answer = manager.step(dict.fromkeys(manager.ready_obs, 0))
            if env_id not in answer:
                continue
            info: Mapping[str, Any] = answer[env_id].info
            if info.get("abnormal"):
                expect(answer[env_id].done, "an abnormal step does not end its episode")
                return
        expect(False, f"environment {env_id} failed, and no step of it was abnormal")


def _alive(pids: Iterable[int]) -> bool:
    for pid in pids:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            continue
        return True
    return False
