"""One middleware as the task runs it: what it is called, and whether it yields."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from types import GeneratorType
from typing import Any

from dicore.errors import TaskError
from dicore.interfaces.middleware import Suspended
from dicore.task.declare import Fields, fields_of

Lock = AbstractContextManager[Any]


@dataclass(frozen=True, slots=True)
class Part:
    """A middleware, inspected once.

    Args:
        call: The middleware itself, or itself under its lock.
        yields: Calling it makes a generator, always.
        name: What messages call it.
        fields: The context fields it declares.
        members: The parts of a combined middleware, in order.
        together: The members of a combined middleware may run at the same time.
    """

    call: Callable[[Any], Any]
    yields: bool
    name: str
    fields: Fields
    members: tuple[Part, ...] = ()
    together: bool = False


class Combined:
    """Several middleware as one, made by `Task.serial` and `Task.parallel`."""

    def __init__(
        self, kind: str, members: tuple[Part, ...], run: Callable[[Part, Any], Any]
    ) -> None:
        self.__name__ = self.__qualname__ = f"{kind}({', '.join(part.name for part in members)})"
        self.members = members
        self.together = kind == "parallel"
        self._run = run

    def __call__(self, ctx: Any) -> None:
        for member in self.members:
            self._run(member, ctx)


def part_of(fn: Any, lock: bool | Lock = False) -> Part:
    """Inspects a middleware.

    Args:
        fn: A callable of the context.
        lock: True: runs of it exclude each other; a lock: they exclude whatever else holds it.

    Raises:
        TaskError: `fn` cannot be called with a context alone.
    """
    _refuse_unfit(fn)
    call, yields = fn, _is_generator_function(fn)
    if lock is not False:
        call, yields = _locked(fn, threading.Lock() if lock is True else lock), False
        call.__qualname__ = name_of(fn)
    if isinstance(fn, Combined):
        return Part(call, yields, name_of(fn), Fields(), fn.members, fn.together)
    return Part(call, yields, name_of(fn), fields_of(fn))


def wrapped(part: Part, wrapper: Callable[[Any], Any]) -> Part:
    """Applies a wrapper of middleware; name, fields and members stay those of what is inside.

    Raises:
        TaskError: it does not return a middleware.
    """
    call = wrapper(part.call)
    try:
        _refuse_unfit(call)
    except TaskError as error:
        raise TaskError(
            f"wrapper '{name_of(wrapper)}' makes no middleware of '{part.name}': {error.message}",
            hint="it takes a middleware and returns one",
        ) from None
    return replace(part, call=call, yields=_is_generator_function(call))


def name_of(fn: Any) -> str:
    """Returns what a person calls a callable: `make.inner`, `Collector`, `<lambda> (f.py:3)`."""
    if isinstance(fn, partial):
        return name_of(fn.func)
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    name = str(name).replace(".<locals>", "").removesuffix(".__call__")
    code = getattr(fn, "__code__", None)
    if name.endswith("<lambda>") and code is not None:
        return f"{name} ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})"
    return name


def suspended_in(result: Any, name: str) -> Suspended:
    """Returns the generator that a middleware without `yield` returned, as a wrapper of one does.

    Raises:
        TaskError: it returned something else.
    """
    if isinstance(result, GeneratorType):
        result.__qualname__ = name  # whoever wrapped it left its own name here
        return result
    hint = "a middleware writes to the context and returns nothing"
    if callable(result):
        hint = f"is it a factory? then call it first: task.use({name}(...))"
    raise TaskError(f"middleware '{name}' returned a {type(result).__name__}", hint=hint)


def _refuse_unfit(fn: Any) -> None:
    if inspect.isclass(fn):
        name = name_of(fn)
        raise TaskError(
            f"{name} is a class, not a middleware",
            hint=f"make one first: task.use({name}(...))",
        )
    if isinstance(fn, GeneratorType):
        name = name_of(fn)
        raise TaskError(
            f"'{name}' was called already; a middleware is the function itself",
            hint=f"task.use({name})",
        )
    if not callable(fn):
        raise TaskError(f"a middleware is a callable of the context, got {fn!r}")
    if any(map(inspect.iscoroutinefunction, (fn, _call_of(fn)))) or any(
        map(inspect.isasyncgenfunction, (fn, _call_of(fn)))
    ):
        raise TaskError(
            f"middleware '{name_of(fn)}' is an async function", hint="write 'def', with 'yield'"
        )
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # some C functions have none
        return
    try:
        signature.bind(None)
    except TypeError:
        raise TaskError(
            f"{name_of(fn)}{signature} cannot be called with a context alone",
            hint=f"is it a factory? then call it first: task.use({name_of(fn)}(...))",
        ) from None


def _call_of(fn: Any) -> Any:
    while isinstance(fn, partial):
        fn = fn.func
    return type(fn).__call__


def _is_generator_function(fn: Any) -> bool:
    return inspect.isgeneratorfunction(fn) or inspect.isgeneratorfunction(_call_of(fn))


def _locked(fn: Callable[[Any], Any], lock: Lock) -> Callable[[Any], Any]:
    """Runs each half of a middleware under a lock, never the time between them."""

    def call(ctx: Any) -> Any:
        with lock:
            result = fn(ctx)
        return halves(result) if isinstance(result, GeneratorType) else result

    def halves(suspended: Suspended) -> Suspended:
        try:
            with lock:
                if next(suspended, _ENDED) is _ENDED:
                    return
            yield
            with lock:
                yield from suspended  # a second yield is passed on for the task to refuse
        finally:
            suspended.close()

    return call


_ENDED = object()
