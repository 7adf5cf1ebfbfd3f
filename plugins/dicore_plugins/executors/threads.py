"""Runs the middleware of a task in threads."""

from __future__ import annotations

import contextvars
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, perf_counter
from typing import Any

from dicore.errors import TaskError
from dicore.interfaces.middleware import Suspended
from dicore.task import Context, StepInterrupted, Task
from dicore_plugins.executors.plan import Plan
from dicore_plugins.executors.schedule import Node, Schedule
from dicore_plugins.executors.versions import ActingPolicy

__all__ = ["ThreadExecutor"]

_LOG = logging.getLogger("dicore.task")

GRACE_S = 1.0
"""Seconds that middleware have to return after an error or Ctrl-C."""

TOLD_S = 60.0
"""Seconds after which a wait says what it is for."""

LONG_S = 2e-5
"""Seconds of a stage for which another thread is woken to run others meanwhile."""

LOOK_S = 0.05
"""Seconds after which the main thread looks whether a thread must be woken."""

SWITCH_S = 0.0005
"""Seconds after which a thread that computes in Python lets others run; 0.005 is Python's."""


class ThreadExecutor:
    """Runs stages of consecutive steps at the same time, in threads; see `IExecutor`.

    A stage waits for those before it that write a field which it reads or writes, and for those
    that use the same object. Kept fields that only later stages write are read with a lag of
    `max_lag` steps, so that collecting goes on during training.

    Args:
        task: The task.
        n_workers: Number of threads.
        max_lag: Steps that a stage may be behind; so many steps run beside the oldest.
    """

    def __init__(self, task: Task, n_workers: int = 3, max_lag: int = 1) -> None:
        self.max_lag = max_lag
        self.cancelled = False
        self._task = task
        self._n_workers = n_workers
        self._lock = threading.RLock()
        self._work = threading.Condition(self._lock)
        self._main = threading.Condition(self._lock)
        self._ctx = Context()
        self._finish = False
        self._error: BaseException | None = None
        self._schedule: Schedule | None = None
        self._plan: Plan | None = None
        self._parts: Any = None
        self._requests: list[tuple[int, int, str, Callable[[], None]]] = []
        self._listeners: list[Callable[[Context], None]] = []
        self._jobs: list[threading.Thread] = []
        self._acting: list[ActingPolicy] = []
        self._publishers: dict[int, list[ActingPolicy]] = {}
        self._over = False
        self._idle = 0
        self._costs: dict[int, float] = {}
        self._present: dict[int, str] = {}
        self._moved_at = 0.0
        self.here: Any = ThreadHere(self)

    # ---- for middleware

    def at_rest(self, fn: Callable[[], None] | None) -> None:
        """Calls a function as soon as all steps begun are complete; see `IExecutor`."""
        node: Node | None = self.here.node
        if node is None or self._schedule is None:
            if fn is not None:
                fn()
            return
        with self._lock:
            self._pause(node, fn)

    def _pause(self, node: Node, fn: Callable[[], None] | None) -> None:
        """Calls a function at the end of the last step that may have begun by now."""
        schedule, plan, number = self._schedule, self._plan, node.step.number
        assert schedule is not None
        assert plan is not None
        if fn is not None:
            request = (number, node.index, plan.stages[node.stage].spec.name, fn)
            if request not in self._requests:
                self._requests.append(request)
        end = number + self.max_lag  # no step after it has begun, whichever thread came first
        schedule.pause = end if schedule.pause is None else min(schedule.pause, end)

    def on_rest(self, fn: Callable[[Context], None]) -> None:
        """Calls a function with the context each time the task is at rest, also at the end.

        What it begins in the background has ended before the functions of `at_rest` are called.
        """
        self._listeners.append(fn)

    def background(self, name: str, fn: Callable[[], None]) -> None:
        """Runs a function beside the middleware; the next rest waits for it."""

        def run() -> None:
            try:
                fn()
            except BaseException as error:
                error.add_note(f"raised in '{name}', in the background")
                self._fail(error)

        inside = contextvars.copy_context()
        thread = threading.Thread(
            target=inside.run, args=(run,), name=f"dicore-{name}", daemon=True
        )
        self._jobs.append(thread)
        thread.start()

    def check_wait(self, event: str) -> None:
        """Refuses to wait for an event in a stage beside which nothing runs that may emit it.

        Raises:
            TaskError: the stage declares no fields, so all others wait for it.
        """
        node: Node | None = self.here.node
        if node is None or self._plan is None or self._schedule is None:
            return
        stage = self._plan.stages[self._plan.stage_of[node.index]]
        if stage.alone and self._schedule.running <= 1 and not any(map(_lives, self._jobs)):
            raise TaskError(
                f"'{stage.spec.name}' waits for event '{event}' while no other middleware may run:"
                " it declares no fields",
                hint="declare what it reads and writes (dicore.task.middleware), or give a timeout",
            )

    def acting(self, mode: Any, field: str = "collect") -> ActingPolicy | None:
        """Returns a policy that acts by versions of the parameters; None if it cannot be copied."""
        made = ActingPolicy.of(mode, field, self.max_lag)
        if made is not None and field == "collect":
            self._acting.append(made)
        return made

    def version(self, ctx: Context) -> int:
        """Returns the step after which the parameters are those that a step acts by."""
        return ctx.total_step - 1 - self.max_lag

    @property
    def lags(self) -> dict[str, int]:
        """Of each lagged counter, how far the value last read was behind the newest."""
        with self._lock:
            return {} if self._schedule is None else self._schedule.lags

    # ---- running

    def run(self, max_step: int | None) -> None:
        """Runs steps until `here.finish` is set, at most `max_step`."""
        if self._finish:
            return
        done = 0
        while max_step is None or done < max_step:
            first = self._ctx.total_step + self._task.spent
            self._run_parts(None if max_step is None else max_step - done)
            done += self._ctx.total_step + self._task.spent - first
            if self._finish or self._task.parts is self._parts:
                return

    def _run_parts(self, max_step: int | None) -> None:
        """Runs steps until the end, or until the task has other middleware."""
        self._parts = self._task.parts
        self._plan = Plan(self._parts, self._ctx)
        spent = self._task.spent
        self._schedule = Schedule(
            self._plan, self._ctx, spent=spent, max_lag=self.max_lag, max_step=max_step
        )
        self._error, self._over, self.cancelled = None, False, False
        self._idle, self._costs, self._publishers = 0, {}, {}
        for each in self._acting:
            users = self._plan.users(id(each.policy))
            each.live = not users
            each.restart(self._schedule.newest.number)
            for stage in users:
                self._publishers.setdefault(stage, []).append(each)
        try:
            with self._threads():
                while not self._wait() and self._task.parts is self._parts:
                    self._rest()
            self._rest()
            while self._jobs:  # an evaluation that was due at the end
                self._rest()
        except BaseException as error:
            if not self.cancelled:
                self.cancelled = True
                self._join(self._jobs)
            self._close(error)
            raise
        self._close(None)

    @contextmanager
    def _threads(self) -> Iterator[None]:
        interval = sys.getswitchinterval()
        sys.setswitchinterval(min(interval, SWITCH_S))
        threads = []
        for number in range(self._n_workers):
            inside = contextvars.copy_context()
            threads.append(
                threading.Thread(
                    target=inside.run, args=(self._loop,), name=f"dicore-{number}", daemon=True
                )
            )
        try:
            for each in threads:
                each.start()
            yield
        except BaseException:
            self.cancelled = True
            raise
        finally:
            with self._lock:
                self._over = True
                self._work.notify_all()
            self._join([*threads, *(self._jobs if self.cancelled else ())])
            sys.setswitchinterval(interval)

    def _join(self, threads: list[threading.Thread]) -> None:
        """Waits until threads have ended; after an error, not longer than `GRACE_S`."""
        until = monotonic() + GRACE_S
        for each in threads:
            while each.is_alive() and not (self.cancelled and monotonic() > until):
                each.join(0.1)

    def _wait(self) -> bool:
        """Waits until the task is at rest; returns whether this is the end."""
        schedule = self._schedule
        assert schedule is not None
        with self._lock:
            self._moved_at = monotonic()
            while self._error is None and not schedule.resting():
                self._main.wait(LOOK_S)
                self._wake(schedule)  # a stage that is quick else may be waiting for another
                self._tell_stall(monotonic())
        if self._error is not None:
            self.cancelled = True
            raise self._error
        return schedule.over

    def _tell_stall(self, now: float) -> None:
        """Names the middleware that run, if none has ended for long."""
        if now - self._moved_at > TOLD_S:
            names = ", ".join(sorted(self._present.values())) or "none"
            _LOG.warning("no middleware has ended for %.0f s; running: %s", TOLD_S, names)
            self._moved_at = now

    def _rest(self) -> None:
        """Waits for what runs in the background; calls the functions that wait for a rest."""
        schedule = self._schedule
        assert schedule is not None
        self._end_jobs()
        self._ctx = schedule.context()
        self._task.spent = schedule.cut is None
        for each in self._listeners:
            each(self._ctx)
        requests, self._requests = sorted(self._requests, key=lambda each: each[:2]), []
        if requests and self._jobs:  # a state that is saved has no work that is under way
            self._end_jobs()
            for each in self._listeners:
                each(self._ctx)
        for _, _, name, fn in requests:
            try:
                fn()
            except Exception as error:
                error.add_note(f"raised by middleware '{name}' at rest, {_after(self._ctx)}")
                raise
        with self._lock:
            newest = schedule.newest
            newest.values.update(vars(self._ctx) if schedule.cut is None else {})
            schedule.restart()
            for acting in self._acting:
                acting.restart(newest.number)
            self._work.notify_all()

    def _end_jobs(self) -> None:
        """Waits for what runs in the background."""
        told_at = monotonic() + TOLD_S
        while self._error is None and (running := [job for job in self._jobs if job.is_alive()]):
            running[0].join(LOOK_S)
            if monotonic() > told_at:
                told_at = monotonic() + TOLD_S
                _LOG.warning("the task waits for %s, in the background", running[0].name)
        self._jobs.clear()
        if self._error is not None:
            self.cancelled = True
            raise self._error

    def _close(self, error: BaseException | None) -> None:
        """Closes the middleware of steps that were not completed, as the task does."""
        assert self._schedule is not None
        suspended = self._schedule.drop()
        self.here.suspended = [each for each in suspended if not getattr(each, "gi_running", False)]
        self._task._abandon(error)  # noqa: SLF001 - its own

    # ---- in the threads

    def _loop(self) -> None:
        with self._lock:
            try:
                while not self._over:
                    node = self._take()
                    if node is None:
                        self._idle += 1
                        self._work.wait()
                        self._idle -= 1
                        continue
                    self._lock.release()
                    try:
                        suspended = self._run_node(node)
                    finally:
                        self._lock.acquire()
                    self._ended(node, suspended)
            except BaseException as error:  # else the others would wait for ever
                self._fail(error)

    def _take(self) -> Node | None:
        """Returns a node to run, and wakes another thread if there are more."""
        schedule = self._schedule
        assert schedule is not None
        if self._halted:
            return None
        node = schedule.next_node()
        if node is None:
            if schedule.resting():
                self._main.notify()
        elif self._costs.get(node.index, LONG_S) >= LONG_S:  # else this thread runs them in turn
            self._wake(schedule)
        return node

    def _wake(self, schedule: Schedule) -> None:
        """Wakes a thread that has nothing to do, if there may be something."""
        if self._idle and not self._halted and (schedule.ready or schedule.may_begin()):
            self._work.notify()

    @property
    def _halted(self) -> bool:
        return self._over or self._error is not None or self.cancelled

    def _run_node(self, node: Node) -> list[Suspended] | None:
        """Runs a node; returns the middleware that it suspended, None if it did not end."""
        schedule, plan, here = self._schedule, self._plan, self.here
        assert schedule is not None
        assert plan is not None
        step, forward = node.step, node.index < plan.count
        suspended = [] if forward else step.suspended.pop(node.stage, [])
        here.enter(node, suspended, schedule.last is not None and step.number >= schedule.last)
        self._present[id(node)] = plan.stages[node.stage].spec.name
        begin = perf_counter()
        try:
            if forward:
                self._task.run_parts((plan.stages[node.stage].spec,), node.view)
            else:
                self._task.backward()
            for each in self._publishers.get(node.stage, ()):
                each.publish(step.number)
        except StepInterrupted:
            with self._lock:
                schedule.interrupt(node)
                self._finish = True
        except BaseException as error:
            if not any("raised in middleware" in note for note in getattr(error, "__notes__", ())):
                name = plan.stages[node.stage].spec.name
                error.add_note(f"raised in middleware '{name}' at total_step {step.number}")
            self._fail(error)
        else:
            return here.suspended if forward else []
        finally:
            self._costs[node.index] = perf_counter() - begin
            self._moved_at = monotonic()
            self._present.pop(id(node), None)
            here.leave()
        return None

    def _ended(self, node: Node, suspended: list[Suspended] | None) -> None:
        """Takes over what a node has set; it may be that others can run now."""
        schedule = self._schedule
        if suspended is None or schedule is None:
            return
        schedule.ended(node, suspended)
        if self._task.parts is not self._parts:
            self._pause(node, None)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self._error is None:
                self._error = error
            self._main.notify()
            self._work.notify_all()

    def finish(self, value: bool, node: Node | None) -> None:
        """Ends the run `max_lag` steps after the present one, which may have begun already.

        At rest, none has begun.
        """
        with self._lock:
            self._finish = value
            schedule = self._schedule
            if value and schedule is not None:
                newest = schedule.newest.number
                if node is None and schedule.resting():
                    last = newest
                else:
                    last = (newest + 1 if node is None else node.step.number) + self.max_lag
                schedule.last = last if schedule.last is None else min(schedule.last, last)


class ThreadHere(threading.local):
    """What a thread runs; outside of a middleware, the context of the last complete step.

    Args:
        executor: The executor.
    """

    def __init__(self, executor: ThreadExecutor) -> None:
        self._executor = executor
        self.node: Node | None = None
        self.suspended: list[Suspended] = []
        self.last = False

    def enter(self, node: Node, suspended: list[Suspended], last: bool) -> None:
        """Begins to run a node."""
        self.node, self.suspended, self.last = node, suspended, last

    def leave(self) -> None:
        """Ends a node."""
        self.node, self.suspended, self.last = None, [], False

    @property
    def ctx(self) -> Context:
        """The context."""
        return self._executor._ctx if self.node is None else self.node.view  # noqa: SLF001

    @ctx.setter
    def ctx(self, ctx: Context) -> None:
        self._executor._ctx = ctx  # noqa: SLF001

    @property
    def finish(self) -> bool:
        """The present steps are the last ones."""
        return self._executor._finish  # noqa: SLF001

    @finish.setter
    def finish(self, value: bool) -> None:
        self._executor.finish(value, self.node)


def _lives(thread: threading.Thread) -> bool:
    return thread.is_alive()


def _after(ctx: Context) -> str:
    return f"after total_step {ctx.total_step}"
