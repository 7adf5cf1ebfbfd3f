"""The contract of executors (`IExecutor`): the results of a task without async mode, sooner."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

from dicore.errors import UsageError
from dicore.task import OnlineRLContext, StepInterrupted, Task, middleware
from dicore.testing.suite import Suite, expect, expect_members
from dicore_plugins.executors.interface import IExecutor

__all__ = ["ExecutorContract"]


class ExecutorContract(Suite):
    """Conformance suite of executors: subclass it and override `make`."""

    def make(self, task: Task, n_workers: int) -> Any:
        """Returns an executor (`IExecutor`) for a task."""
        return self.registered.target(task, n_workers)

    def test_has_the_methods(self) -> None:
        """It satisfies `IExecutor`."""
        expect_members(self.make(Task(), 2), IExecutor)

    def test_counts_like_a_task_without_it(self) -> None:
        """After n steps, counters and order of data are those of a task without async mode."""
        seen = []
        for make in (None, self.make):
            program = _Program()
            with _started(make) as task:
                program.use(task)
                task.run(max_step=7)
                ctx: Any = task.ctx
                seen.append((ctx.total_step, ctx.env_step, ctx.train_iter, program.trained))
        expect(seen[0] == seen[1], f"without: {seen[0]}; with: {seen[1]}")

    def test_collects_while_it_learns(self) -> None:
        """Middleware whose fields allow it runs at the same time."""
        program = _Program(together=threading.Barrier(2))
        with _started(self.make) as task:
            program.use(task)
            task.run(max_step=6)

    def test_what_is_written_by_both_is_never_written_at_once(self) -> None:
        """Middleware that writes the same field does not overlap, nor what declares nothing."""
        inside = threading.Lock()
        met = threading.Event()

        def alone(ctx: OnlineRLContext) -> None:
            if not inside.acquire(blocking=False):
                met.set()
                expect(False, "another middleware was running")
            met.wait(0.1)
            inside.release()

        count = middleware(reads=["env_step"], writes=["env_step"], uses=[])
        with _started(self.make) as task:
            task.use(task.parallel(*(count(partial(alone)) for _ in range(2)))).run(max_step=3)
        with _started(self.make) as task:
            task.use(alone).use(partial(alone)).run(max_step=3)

    def test_an_exception_surfaces(self) -> None:
        """The exception of a middleware is raised by `run`, with the middleware named."""

        @middleware(reads=["train_iter"], writes=["train_iter"])
        def broken(ctx: OnlineRLContext) -> None:
            raise UsageError("it is broken")

        try:
            with _started(self.make) as task:
                task.use(broken).run(max_step=3)
        except UsageError as error:
            expect("broken" in "".join(error.__notes__), f"its notes are {error.__notes__}")
        else:
            expect(False, "nothing was raised")

    def test_an_interrupted_step_is_repeated(self) -> None:
        """After `StepInterrupted` the context is that before the step."""

        @middleware(reads=["env_step"], writes=["env_step"])
        def count(ctx: OnlineRLContext) -> None:
            if ctx.total_step == 3:
                raise StepInterrupted
            ctx.env_step += 1

        with _started(self.make) as task:
            task.use(count).run(max_step=10)
            ctx: Any = task.ctx
            found = ctx.total_step, ctx.env_step, task.spent
        expect(found == (3, 3, False), f"step 3 with 3 env steps is to be repeated, got {found}")

    def test_functions_are_called_at_rest(self) -> None:
        """`at_rest` calls when no middleware runs and the context is complete; then it goes on."""
        found: list[tuple[int, int]] = []
        program = _Program()

        @middleware(reads=["train_iter"], uses=[])
        def save(ctx: OnlineRLContext) -> None:
            if ctx.total_step == 2:
                task.executor.at_rest(
                    lambda: found.append((_now(task).train_iter, len(program.trained)))
                )

        with _started(self.make) as task:
            program.use(task)
            task.use(save).run(max_step=9)
            expect(task.ctx.total_step == 8, f"9 steps, the last is {task.ctx.total_step}")
            most = 3 + task.executor.max_lag
        right = len(found) == 1 and found[0][0] == found[0][1] and 3 <= found[0][0] <= most
        expect(right, f"asked in the third step, at rest after {found}; expected 3 to {most}")


class _Program:
    """Collects numbers and learns from them."""

    def __init__(self, together: threading.Barrier | None = None) -> None:
        self.trained: list[int] = []
        self._together = together

    def use(self, task: Task) -> None:
        def meet(ctx: OnlineRLContext, step: int) -> None:
            if self._together is not None and 0 <= step < 4:
                self._together.wait(60)

        @middleware(reads=["env_step", "train_iter"], writes=["trajectories", "env_step"])
        def collect(ctx: Any) -> None:
            ctx.trajectories = [ctx.total_step]
            ctx.env_step += 4
            meet(ctx, ctx.total_step - 1)  # with the step before

        @middleware(reads=["trajectories", "train_iter"], writes=["train_iter"])
        def learn(ctx: Any) -> None:
            self.trained.extend(ctx.trajectories)
            meet(ctx, ctx.total_step)
            ctx.train_iter += 1

        task.use(collect).use(learn)


def _started(make: Any) -> Task:
    """Returns a started task; with `make`, one that runs by an executor."""
    task = Task().start(ctx=OnlineRLContext())
    if make is not None:
        task.executor = make(task, 3)
        task.executor.here.ctx, task._here = task.ctx, task.executor.here  # noqa: SLF001 - as start
    return task


def _now(task: Task) -> Any:
    return task.ctx
