"""The contract of executors: that of threads passes, and each check catches a planted fault."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from dicore_plugins.executors.contract import ExecutorContract
from dicore_plugins.executors.plan import Plan
from dicore_plugins.executors.threads import ThreadExecutor

from .faults import Fault, caught, names_of


def running(change: Callable[[Any], None]) -> dict[str, Any]:
    """Changes the executor when a run has ended."""

    def run(self: Any, max_step: int | None) -> None:
        ThreadExecutor.run(self, max_step)
        change(self)

    return {"run": run}


def one_step_short(self: Any, max_step: int | None) -> None:
    ThreadExecutor.run(self, None if max_step is None else max_step - 1)


def ends_behind(self: Any) -> None:
    if hasattr(self._ctx, "train_iter"):
        self._ctx.train_iter = max(0, self._ctx.train_iter - self.max_lag)


def one_thread(self: Any, task: Any, n_workers: int) -> None:
    ThreadExecutor.__init__(self, task, 1)


def one_step_at_a_time(self: Any, task: Any, n_workers: int) -> None:
    ThreadExecutor.__init__(self, task, n_workers, max_lag=0)


def ignoring(**declared: Any) -> dict[str, Any]:
    """Orders the middleware as if they declared something else."""

    def order(self: Any, plan: Plan | None) -> None:
        if plan is not None:
            right = plan.stages
            plan.stages = [replace(each, **declared) for each in right]
            plan.same = [plan._waits(at, range(at), plan._in_step) for at in plan.nodes]
            plan.before = [plan._waits(at, plan.nodes, plan._across) for at in plan.nodes]
            plan.stages = right
        vars(self)["_plan"] = plan

    return {"_plan": property(lambda self: vars(self).get("_plan"), order)}


def loses_errors(self: Any, max_step: int | None) -> None:
    with suppress(Exception):
        ThreadExecutor.run(self, max_step)


def names_no_middleware(self: Any, max_step: int | None) -> None:
    try:
        ThreadExecutor.run(self, max_step)
    except Exception as error:
        error.__notes__ = []
        raise


def takes_it_for_complete(self: Any) -> None:
    self._task.spent = True


def skips_it(self: Any) -> None:
    if not self._task.spent:
        self._ctx = self._ctx.renew()


def beside_the_middleware(self: Any, fn: Callable[[], None]) -> None:
    self.background("at_rest", fn)


def twice(self: Any, fn: Callable[[], None]) -> None:
    ThreadExecutor.at_rest(self, fn)
    ThreadExecutor.at_rest(self, partial(fn))


def ends_there(self: Any, fn: Callable[[], None]) -> None:
    ThreadExecutor.at_rest(self, fn)
    self.here.finish = True


def remembers(self: Any, fn: Callable[[], None]) -> None:
    vars(self).setdefault("asked", []).append(fn)


def calls_them_at_the_end(self: Any, max_step: int | None) -> None:
    ThreadExecutor.run(self, max_step)
    for fn in vars(self).pop("asked", []):
        fn()


FAULTS: list[Fault] = [
    ("has_the_methods", {"background": None}),
    ("has_the_methods", {"at_rest": None}),
    ("counts_like_a_task_without_it", {"run": one_step_short}),
    ("counts_like_a_task_without_it", running(ends_behind)),
    ("collects_while_it_learns", {"__init__": one_thread}),
    ("collects_while_it_learns", {"__init__": one_step_at_a_time}),
    ("what_is_written_by_both_is_never_written_at_once", ignoring(writes=frozenset())),
    ("what_is_written_by_both_is_never_written_at_once", ignoring(alone=False)),
    ("an_exception_surfaces", {"run": loses_errors}),
    ("an_exception_surfaces", {"run": names_no_middleware}),
    ("an_interrupted_step_is_repeated", running(takes_it_for_complete)),
    ("an_interrupted_step_is_repeated", running(skips_it)),
    ("functions_are_called_at_rest", {"at_rest": lambda self, fn: None}),
    ("functions_are_called_at_rest", {"at_rest": beside_the_middleware}),
    ("functions_are_called_at_rest", {"at_rest": twice}),
    ("functions_are_called_at_rest", {"at_rest": ends_there}),
    ("functions_are_called_at_rest", {"at_rest": remembers, "run": calls_them_at_the_end}),
]
PLANTED = {ExecutorContract: [check for check, _ in FAULTS]}


class TestThreadExecutor(ExecutorContract):
    def make(self, task: Any, n_workers: int) -> Any:
        return ThreadExecutor(task, n_workers)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Middleware that wait for each other in vain give up soon."""
    wait = threading.Barrier.wait
    monkeypatch.setattr(threading.Barrier, "wait", lambda self, timeout=None: wait(self, 0.5))


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("fault", FAULTS, ids=names_of(FAULTS))
def test_each_check_catches_its_fault(fault: Fault) -> None:
    assert caught(ExecutorContract, ThreadExecutor, fault) is not None
