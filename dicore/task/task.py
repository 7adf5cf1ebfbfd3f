"""Task: runs middleware over a context, step after step; the one loop of dicore."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import reduce
from numbers import Integral
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from dicore.errors import TaskError
from dicore.interfaces.middleware import SupportsJoin, Suspended
from dicore.task.context import Context
from dicore.task.events import Events
from dicore.task.middleware import (
    Combined,
    Lock,
    MiddlewareSpec,
    check_order,
    inspect_middleware,
    name_of,
    suspended_in,
    wrapped,
)

__all__ = ["Task", "TaskState", "task"]


class Task(Events):
    """Holds all that one training needs while it runs: middleware, context, listeners.

        with task.start(ctx=OnlineRLContext()):
            task.use(StepCollector(cfg, policy.collect_mode, env))
            task.use(OffPolicyLearner(cfg, policy.learn_mode, buffer))
            task.run(max_step=1000)

    In a step every middleware runs in order up to its `yield`, then those that yielded run on, last
    in first out; the next step has a context of its own. Leaving the block ends whatever is still
    suspended and forgets everything.
    """

    def __init__(self) -> None:
        super().__init__()
        self._running = False
        self._reset()

    def _reset(self) -> None:
        self._parts: tuple[MiddlewareSpec, ...] = ()
        self._wrappers: tuple[Callable[[Any], Any], ...] = ()
        self._suspended: list[Suspended] = []
        self._ctx = Context()
        self._looping = False
        self._spent = False  # this context has had its step
        self._finish = False
        self._last = False  # the step that `max_step` allows last has begun
        self.labels: frozenset[str] = frozenset()

    def start(
        self,
        async_mode: bool = False,
        n_async_workers: int = 3,
        ctx: Context | None = None,
        labels: Collection[str] | None = None,
    ) -> Self:
        """Begins afresh; used as `with task.start(...):`, or ended by `stop`.

        Args:
            async_mode: Let middleware overlap; not available yet.
            n_async_workers: How many may run at a time in async mode.
            ctx: The first context; a plain `Context` if None.
            labels: What this process is for.

        Raises:
            TaskError: this task is running already, async mode is asked for, or `ctx` is none.
        """
        if self._running:
            raise TaskError(
                "this task is running already; it cannot be started inside itself",
                hint="leave its block (or call task.stop()) first, or make a Task() of your own",
            )
        if async_mode:
            raise TaskError("async mode is not available yet", hint="task.start(async_mode=False)")
        if ctx is not None and not isinstance(ctx, Context):
            raise TaskError(f"ctx is an instance of a Context class, got {ctx!r}")
        if n_async_workers < 1:
            raise TaskError(f"n_async_workers must be >= 1, got {n_async_workers}")
        self._reset()
        self._ctx = Context() if ctx is None else ctx
        self.labels = frozenset(labels or ())
        self._running = True
        return self

    def __enter__(self) -> Self:
        self._check_running("__enter__")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(error)

    def stop(self) -> None:
        """Ends the task: from inside a step after that step, else at once. Harmless when over."""
        if self._looping:
            self.finish = True
        else:
            self._end(None)

    @property
    def running(self) -> bool:
        """The task has been started and not stopped."""
        return self._running

    @property
    def finish(self) -> bool:
        """The present step is the last one; set it to end the run after this step.

        In the last step of `max_step` it is true from the beginning.
        """
        return self._finish or self._last

    @finish.setter
    def finish(self, value: bool) -> None:
        self._check_running("finish")
        self._finish = bool(value)

    @property
    def ctx(self) -> Context:
        """The context of the present step.

        Raises:
            TaskError: the task has not been started.
        """
        self._check_running("ctx")
        return self._ctx

    # Middleware -----------------------------------------------------------------------------------

    def use(self, fn: Callable[[Any], Any], lock: bool | Lock = False) -> Self:
        """Adds a middleware at the end; during a run it joins from the next step on.

        Args:
            fn: A callable of the context; it may be a generator function with one `yield`.
            lock: True keeps its own runs from overlapping; a lock shares that among several.
                What has a method `join_task` is told which task it joins, to listen to its events.

        Raises:
            TaskError: the task has not been started, or `fn` cannot be called with a context.
        """
        self._check_running("use")
        self._parts = (*self._parts, reduce(wrapped, self._wrappers, inspect_middleware(fn, lock)))
        self._tell(fn)
        return self

    def _tell(self, member: Any) -> None:
        """Tells a middleware, and those combined in it, which task they join."""
        for part in member.members if isinstance(member, Combined) else ():
            self._tell(part.call)
        if isinstance(member, SupportsJoin):
            member.join_task(self)

    def use_wrapper(self, wrapper: Callable[[Callable[[Any], Any]], Callable[[Any], Any]]) -> Self:
        """Puts a wrapper around every middleware that is, and that will be, in use.

            timer = StepTimer()
            task.use_wrapper(timer)

        Args:
            wrapper: A function of a middleware that returns a middleware. A combined one counts as
                one. The wrapper used last is the outermost.

        Raises:
            TaskError: the task has not been started, or the wrapper returns no middleware.
        """
        self._check_running("use_wrapper")
        if not callable(wrapper) or isinstance(wrapper, type):
            raise TaskError(
                f"a wrapper is a function of a middleware, got {wrapper!r}",
                hint="task.use_wrapper(StepTimer())",
            )
        self._parts = tuple(wrapped(part, wrapper) for part in self._parts)
        self._wrappers = (*self._wrappers, wrapper)
        return self

    def serial(self, *fns: Callable[[Any], Any]) -> Combined:
        """Combines middleware into one that runs them in order."""
        return Combined("serial", tuple(map(inspect_middleware, fns)), self._run_part)

    def parallel(self, *fns: Callable[[Any], Any]) -> Combined:
        """Combines middleware that do not need each other into one; synchronously, in order."""
        return Combined("parallel", tuple(map(inspect_middleware, fns)), self._run_part)

    def wrap(
        self, fn: Callable[[Any], Any], lock: bool | Lock = False
    ) -> Callable[[Any], Callable[[], None]]:
        """Makes a middleware callable by hand, inside another one or a loop of one's own.

        Returns:
            A function of the context that runs the forward part and returns a function that runs
            the backward part; left alone, that part runs in `backward`.
        """
        part = inspect_middleware(fn, lock)

        def forward(ctx: Any) -> Callable[[], None]:
            suspended = self._run_part(part, ctx)
            return lambda: self._resume(suspended)

        forward.__qualname__ = part.name
        return forward

    # Running --------------------------------------------------------------------------------------

    def run(self, max_step: int | None = None) -> None:
        """Runs steps until `finish` is set.

        Args:
            max_step: Most steps to run in this call; None sets no limit.

        Raises:
            TaskError: the task has not been started, is looping already, has no middleware, or its
                middleware stand in a wrong order.
        """
        self._check_running("run")
        if self._looping:
            raise TaskError("task.run was called by a middleware of the task", hint="task.use(fn)")
        given: Any = max_step
        if given is not None and (not isinstance(given, Integral) or int(given) < 0):
            raise TaskError(f"max_step must be an int >= 0, got {given!r}")
        if not self._parts:
            raise TaskError("there is no middleware to run", hint="task.use(fn) comes before run")
        check_order(self._parts, self._ctx)
        self._last = False
        self._looping = True
        try:
            self._loop(max_step)
        except BaseException as error:
            self._abandon(error)
            raise
        finally:
            self._looping = False

    def _loop(self, max_step: int | None) -> None:
        step = 0
        while not self._finish and step != max_step:
            step += 1
            self._last = step == max_step
            if self._spent:
                self._ctx = self._ctx.renew()
            self._spent = True
            self._step()

    def _step(self) -> None:
        """Runs every middleware once, forward and backward."""
        ctx, suspended = self._ctx, self._suspended
        part: MiddlewareSpec | Suspended | None = None
        try:
            for part in self._parts:
                result = part.call(ctx)
                if result is not None:
                    if not part.yields:
                        result = suspended_in(result, part.name)
                    for _ in result:
                        suspended.append(result)
                        break
            while suspended:
                part = suspended.pop()
                for _ in part:
                    _refuse_second_yield(part)
        except Exception as error:
            _note(error, part, ctx)
            raise

    def forward(self, fn: Callable[[Any], Any], ctx: Context | None = None) -> Suspended | None:
        """Runs a middleware up to its `yield`, by hand.

        Args:
            fn: The middleware.
            ctx: A context; the task's own if None.

        Returns:
            The generator, where it yielded; its other half runs in `backward`.
        """
        self._check_running("forward")
        return self._run_part(inspect_middleware(fn), self._ctx if ctx is None else ctx)

    def backward(self) -> None:
        """Runs the other halves of all middleware that yielded, last in first out."""
        self._check_running("backward")
        while self._suspended:
            self._resume(self._suspended[-1])

    def renew(self) -> Self:
        """Ends the present step (`sync`, `backward`) and goes on to the next context.

        Raises:
            TaskError: a middleware calls it during `run`, which renews by itself.
        """
        self.sync()
        if self._looping:
            raise TaskError("task.renew was called by a middleware; run renews after each step")
        self.backward()
        self._ctx = self._ctx.renew()
        self._spent = False
        return self

    def sync(self) -> Self:
        """Waits until no middleware is running; synchronously none is."""
        self._check_running("sync")
        return self

    def _run_part(self, part: MiddlewareSpec, ctx: Any) -> Suspended | None:
        """Runs one middleware up to its `yield`; returns what is suspended."""
        self._check_running("forward")
        try:
            result = part.call(ctx)
            if result is None:
                return None
            generator = result if part.yields else suspended_in(result, part.name)
            for _ in generator:
                self._suspended.append(generator)
                return generator
        except Exception as error:
            _note(error, part, ctx)
            raise
        return None

    def _resume(self, suspended: Suspended | None) -> None:
        """Runs the other half of one middleware; once is enough."""
        if suspended is None or suspended not in self._suspended:
            return
        self._suspended.remove(suspended)
        try:
            for _ in suspended:
                _refuse_second_yield(suspended)
        except Exception as error:
            _note(error, suspended, self._ctx)
            raise

    # Ending ---------------------------------------------------------------------------------------

    def _check_running(self, what: str) -> None:
        if not self._running:
            raise TaskError(
                f"task.{what} was used outside of a running task",
                hint="with task.start(ctx=OnlineRLContext()): ...",
            )

    def _end(self, error: BaseException | None) -> None:
        self._running = False
        try:
            self._abandon(error)
        finally:
            self._end_events()
            self._reset()

    def _abandon(self, error: BaseException | None) -> None:
        """Closes all that is suspended, last first; every one is closed whatever the others do.

        A failure to close becomes a note of `error` where there is one; else the first surfaces.
        """
        suspended, self._suspended = self._suspended, []
        first = error
        for generator in reversed(suspended):
            try:
                generator.close()
            except Exception as failure:
                if first is None:
                    first = failure
                    _note(failure, generator, self._ctx)
                else:
                    first.add_note(f"ending '{name_of(generator)}' failed too: {failure!r}")
        if error is None and first is not None:
            raise first


def _note(error: Exception, where: MiddlewareSpec | Suspended | None, ctx: Any) -> None:
    """Says on an exception which middleware it comes from."""
    if where is not None:
        name = where.name if isinstance(where, MiddlewareSpec) else name_of(where)
        step = getattr(ctx, "total_step", None)
        error.add_note(f"raised in middleware '{name}' at total_step {step}")


def _refuse_second_yield(suspended: Suspended) -> NoReturn:
    suspended.close()
    raise TaskError(
        f"middleware '{name_of(suspended)}' yields more than once",
        hint="one yield parts the forward pass from the backward pass",
    )


task: Final = Task()
"""The task of this process."""


class TaskState:
    """Reads the counters off a task's present context, and keeps those that were loaded.

    Args:
        task: The task.

    Attributes:
        values: The fields of the next step's context, by name; empty if no state was loaded.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self.values: dict[str, Any] = {}

    def state_dict(self) -> dict[str, Any]:
        """Returns the fields that the next step's context will have."""
        if not self._task.running:
            return dict(self.values)
        ctx = self._task.ctx
        names = [name for name in ctx.__dataclass_fields__ if ctx.keeps(name)]
        fields = {name: getattr(ctx, name) for name in names}
        return {**fields, "total_step": ctx.total_step + 1}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes the fields over."""
        self.values = dict(state)
