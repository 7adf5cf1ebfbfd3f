"""Task: the training loop, which runs middleware over a context, step by step."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import reduce
from numbers import Integral
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from dicore.errors import TaskError
from dicore.task.context import Context
from dicore.task.events import Events
from dicore.task.middleware import (
    Combined,
    Lock,
    Middleware,
    MiddlewareSpec,
    Role,
    check_order,
    inspect_middleware,
    name_of,
    suspended_in,
    wrapped,
)
from dicore.values import State, StateDict, Suspended

__all__ = ["Task", "TaskState", "task"]


class StepInterrupted(Exception):  # noqa: N818 - not an error
    """Raised by a middleware to finish the task within a step, which a resumed task repeats."""


class Here:
    """The context, the suspended middleware, whether to finish, and whether the last step began."""

    def __init__(self, ctx: Context) -> None:
        self.ctx, self.suspended, self.finish, self.last = ctx, list[Suspended](), False, False


class Task(Events):
    """Middleware, context and listeners of one training.

        with task.start(ctx=OnlineRLContext()):
            task.use(StepCollector(cfg, policy.collect_mode, env))
            task.use(OffPolicyLearner(cfg, policy.learn_mode, buffer))
            task.run(max_step=1000)

    In each step, all middleware run in order up to their `yield`; then those that yielded continue
    in reverse order. Every step has a new context. Leaving the block closes suspended middleware
    and resets the task. Before `start`, all methods raise `TaskError`.
    """

    role = Role

    def __init__(self) -> None:
        super().__init__()
        self._running = False
        self._reset(Context())

    def _reset(self, ctx: Context) -> None:
        self.parts: tuple[MiddlewareSpec, ...] = ()
        self._wrappers: tuple[Callable[[Middleware], Middleware], ...] = ()
        self._here: Any = Here(ctx)
        self._looping = False
        self.spent = False  # the context was used by a step
        self.labels: frozenset[str] = frozenset()
        self.roles: frozenset[str] = frozenset()
        self.executor: Any = None

    def start(
        self,
        async_mode: bool = False,
        n_async_workers: int = 3,
        ctx: Context | None = None,
        labels: Collection[str] | None = None,
    ) -> Self:
        """Starts the task: `with task.start(...):`, or end it with `stop`.

        The first context is `ctx`, or a plain `Context`. To the `labels` those of the router are
        added, and `async` in `async_mode`: `run` then runs middleware at the same time where the
        declared fields allow it, in `n_async_workers` threads (see `executor`).
        """
        if self._running:
            raise TaskError(
                "this task is running already",
                hint="leave its block (or call task.stop()) first, or use a separate Task()",
            )
        if ctx is not None and not isinstance(ctx, Context):
            raise TaskError(f"ctx must be an instance of Context, got {ctx!r}")
        if n_async_workers < 1:
            raise TaskError(f"n_async_workers must be >= 1, got {n_async_workers}")
        self._reset(Context() if ctx is None else ctx)
        if async_mode:
            self.executor = _executor(self, n_async_workers)
            self.executor.here.ctx, self._here = self._here.ctx, self.executor.here
        given = [labels] if isinstance(labels, str) else labels or ()
        self.labels = frozenset([*given, *self.router.labels, *["async"] * bool(async_mode)])
        self._running = True
        self.router.route("start", self)
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
        """Ends the task: immediately, or after the present step if called within one."""
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
        """The present step is the last one; set it to end the run after this step."""
        return bool(self._here.finish or self._here.last)

    @finish.setter
    def finish(self, value: bool) -> None:
        self._check_running("finish")
        self._here.finish = bool(value)

    @property
    def ctx(self) -> Context:
        """The context of the present step."""
        self._check_running("ctx")
        ctx: Context = self._here.ctx
        return ctx

    def add_role(self, role: str) -> None:
        """Adds a role of this process; call it before `use`, see `has_role`.

        A name of your own may be a role, too, unless it is nearly one of `task.role`.
        """
        self._check_running("add_role")
        from dicore_registry import nearest

        close = role not in list(Role) and nearest(str(role).lower(), [*Role])
        if close:
            raise TaskError(f"add_role: unknown role '{role}'; did you mean '{close}'?")
        self.roles |= {role}

    def has_role(self, role: str | None) -> bool:
        """Returns whether this process has a role (`task.role.LEARNER`, …); all, if none is added.

        Middleware that is bound to a role which this process does not have is left out.
        """
        return role is None or not self.roles or role in self.roles

    def _check_wait(self, event: str) -> None:
        check = getattr(self.executor, "check_wait", None)
        if check is not None and not self.router.is_active:
            check(event)
        super()._check_wait(event)

    def match_labels(self, patterns: str | Iterable[str]) -> bool:
        """Returns whether any label matches any of the patterns (`node.*`)."""
        wanted = [patterns] if isinstance(patterns, str) else patterns
        return any(fnmatchcase(label, pattern) for pattern in wanted for label in self.labels)

    def use(self, fn: Middleware, lock: bool | Lock = False) -> Self:
        """Appends a middleware; during a run it takes effect in the next step.

        `fn` takes the context and may be a generator function with one `yield`. If it has a method
        `join_task`, it receives the task, to listen to its events. With `lock` True its calls do
        not overlap; with a lock, nor do those of others that use the lock.
        """
        self._check_running("use")
        if not self.has_role(getattr(fn, "role", None)):
            return self
        self.parts = (*self.parts, reduce(wrapped, self._wrappers, inspect_middleware(fn, lock)))
        self._join(fn)
        return self

    def _join(self, member: object) -> None:
        """Passes the task to a middleware and its members."""
        for part in member.members if isinstance(member, Combined) else ():
            self._join(part.call)
        if (join := getattr(member, "join_task", None)) is not None:  # see `SupportsJoin`
            join(self)

    def use_wrapper(self, wrapper: Callable[[Middleware], Middleware]) -> Self:
        """Wraps every middleware, including those added later; the last wrapper is the outermost.

        `wrapper` takes and returns a middleware; a combined middleware is wrapped as a whole.
        """
        self._check_running("use_wrapper")
        if not callable(wrapper) or isinstance(wrapper, type):
            raise TaskError(
                f"a wrapper must be a function that takes a middleware, got {wrapper!r}",
                hint="for instance task.use_wrapper(StepTimer())",
            )
        self.parts = tuple(wrapped(part, wrapper) for part in self.parts)
        self._wrappers = (*self._wrappers, wrapper)
        return self

    def serial(self, *fns: Middleware) -> Combined:
        """Combines middleware into one, which runs them in order."""
        return self._combined("serial", fns)

    sequence = serial  # its name in DI-engine 0.4

    def parallel(self, *fns: Middleware) -> Combined:
        """Combines independent middleware into one; runs them in order so far."""
        return self._combined("parallel", fns)

    def _combined(self, kind: str, fns: Iterable[Middleware]) -> Combined:
        fns = [fn for fn in fns if self.has_role(getattr(fn, "role", None))]
        return Combined(kind, tuple(map(inspect_middleware, fns)), self.run_parts)

    def wrap(
        self, fn: Middleware, lock: bool | Lock = False
    ) -> Callable[[Context], Callable[[], None]]:
        """Makes a middleware callable inside another middleware or your own loop.

        The returned function runs the forward part and returns a function for the backward part.
        If that is not called, the backward part runs in `backward`.
        """
        part = inspect_middleware(fn, lock)

        def forward(ctx: Context) -> Callable[[], None]:
            suspended = self.run_parts((part,), ctx)
            return lambda: self._resume(suspended)

        forward.__qualname__ = part.name
        return forward

    def run(self, max_step: int | None = None) -> None:
        """Checks the order of middleware; runs steps until `finish` is set, at most `max_step`."""
        self._check_running("run")
        if self._looping:
            raise TaskError(
                "task.run was called by a middleware of the task", hint="add it by task.use(fn)"
            )
        given: object = max_step
        if given is not None and (not isinstance(given, Integral) or int(given) < 0):
            raise TaskError(f"max_step must be an int >= 0, got {given!r}")
        if not self.parts:
            raise TaskError("no middleware to run", hint="call task.use(fn) first")
        check_order(self.parts, self._here.ctx)
        self._here.last = False
        self._looping = True
        try:
            (self._loop if self.executor is None else self.executor.run)(max_step)
            self.router.route("end", self)
        except BaseException as error:
            self._abandon(error)
            raise
        finally:
            self._looping = False

    def _loop(self, max_step: int | None) -> None:
        here, step = self._here, 0
        while not here.finish and step != max_step:
            step += 1
            here.last = step == max_step
            if self.spent:
                here.ctx = here.ctx.renew()
            self.spent = True
            try:
                self.router.route("step", self)
                self.run_parts(self.parts, here.ctx)
                self.backward()
            except StepInterrupted:
                self._abandon(None)
                here.finish, self.spent = True, False

    def forward(self, fn: Middleware, ctx: Context | None = None) -> Suspended | None:
        """Runs a middleware up to its `yield`; returns the generator if `backward` continues it."""
        self._check_running("forward")
        return self.run_parts([inspect_middleware(fn)], self._here.ctx if ctx is None else ctx)

    def backward(self) -> Self:
        """Continues all middleware that yielded, in reverse order."""
        self._check_running("backward")
        while suspended := self._here.suspended:
            self._resume(suspended[-1])
        return self

    def renew(self) -> Self:
        """Ends the present step and makes the next context; must not be called within `run`."""
        self.sync()
        if self._looping:
            raise TaskError("task.renew was called by a middleware; run renews after each step")
        self.backward()
        self._here.ctx = self._here.ctx.renew()
        self.spent = False
        return self

    def sync(self) -> Self:
        """Waits until no middleware is running: at once, as `run` returns when all have ended."""
        self._check_running("sync")
        return self

    def run_parts(self, parts: Sequence[MiddlewareSpec], ctx: Context) -> Suspended | None:
        """Runs middleware up to their `yield`; returns the generator of the last for `backward`."""
        self._check_running("forward")
        found: Suspended | None = None
        for part in parts:
            try:
                found = part.call(ctx)
                if found is not None:
                    for _ in suspended_in(found, part.name):
                        self._here.suspended.append(found)
                        break
            except Exception as error:
                _note(error, part, ctx)
                raise
        return found

    def _resume(self, suspended: Suspended | None) -> None:
        """Continues one suspended middleware, once."""
        if suspended is None or suspended not in self._here.suspended:
            return
        self._here.suspended.remove(suspended)
        try:
            for _ in suspended:
                _refuse_second_yield(suspended)
        except Exception as error:
            _note(error, suspended, self._here.ctx)
            raise

    def _check_running(self, what: str) -> None:
        if not self._running:
            raise TaskError(
                f"task.{what} needs a running task",
                hint="use it inside 'with task.start(ctx=OnlineRLContext()):'",
            )

    def _end(self, error: BaseException | None) -> None:
        self._running = False
        try:
            self._abandon(error)
        finally:
            self._end_events()
            self._reset(Context())

    def _abandon(self, error: BaseException | None) -> None:
        """Closes all suspended middleware, in reverse order, even if some fail to close.

        Failures to close become notes of `error`; without an error, the first failure is raised.
        """
        suspended, self._here.suspended = self._here.suspended, []
        first = error
        for generator in reversed(suspended):
            try:
                generator.close()
            except Exception as failure:
                if first is None:
                    first = failure
                    _note(failure, generator, self._here.ctx)
                else:
                    first.add_note(f"closing '{name_of(generator)}' failed too: {failure!r}")
        if error is None and first is not None:
            raise first


def _note(error: Exception, where: MiddlewareSpec | Suspended, ctx: Context) -> None:
    """Adds a note to an exception that names the middleware."""
    name = where.name if isinstance(where, MiddlewareSpec) else name_of(where)
    step = getattr(ctx, "total_step", None)
    error.add_note(f"raised in middleware '{name}' at total_step {step}")


def _executor(task: Task, workers: int) -> object:
    """Returns the default component of kind `executor`."""
    from dicore_registry import default

    registry = default()
    if (name := registry.default("executor")) is None:
        raise TaskError(
            "async mode needs an executor, and no installed package has one",
            hint="pip install dicore-plugins, or call task.start(async_mode=False)",
        )
    return registry.resolve("executor", name).target(task, workers)


def _refuse_second_yield(suspended: Suspended) -> NoReturn:
    suspended.close()
    raise TaskError(
        f"middleware '{name_of(suspended)}' yields more than once",
        hint="use one yield, between the forward and the backward part",
    )


task: Final = Task()
"""The default task of the process."""

_REMOVED_FIELDS: Final = ("trained_env_step", "wandb_url")
"""Kept fields of earlier versions, which their checkpoints hold."""


class TaskState:
    """The kept context fields of a task as a part of a run; a resumed task starts with `values`."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self.values: StateDict = {}

    def state_dict(self) -> StateDict:
        """Returns the kept fields of the next context."""
        if not self._task.running:
            return dict(self.values)
        ctx = self._task.ctx
        names = [name for name in ctx.__dataclass_fields__ if ctx.keeps(name)]
        fields = {name: getattr(ctx, name) for name in names}
        return {**fields, "total_step": ctx.total_step + self._task.spent}

    def load_state_dict(self, state: State) -> None:
        """Sets `values`."""
        self.values = {name: state[name] for name in state if name not in _REMOVED_FIELDS}
