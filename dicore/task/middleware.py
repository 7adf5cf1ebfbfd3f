"""Declaring and inspecting middleware, and checking their order before a run."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from types import GeneratorType
from typing import Any, NamedTuple, TypeAlias, TypeVar

from dicore.errors import TaskError
from dicore.task.context import Context
from dicore.values import Suspended

__all__ = ["Fields", "check_order", "fields_of", "middleware"]

F = TypeVar("F", bound=Callable[..., object])
Middleware: TypeAlias = Callable[[Any], Suspended | None]
"""A middleware as a function; `Any`: it takes the context that its task has."""


Role = StrEnum("Role", ["LEARNER", "COLLECTOR", "EVALUATOR", "FETCHER"])
"""What a process does; see `Task.has_role`."""


class Fields(NamedTuple):
    """Declared context fields of a middleware; see `middleware`."""

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    either: tuple[str, ...] = ()


def middleware(
    *,
    reads: Iterable[str] = (),
    writes: Iterable[str] = (),
    optional: Iterable[str] = (),
    either: Iterable[str] = (),
    uses: Iterable[object] | None = None,
    role: str | None = None,
) -> Callable[[F], F]:
    """Declares the context fields that a middleware reads and writes.

    From these the task detects a wrong order of middleware before its first step. It decorates the
    function that takes the context (inside a factory), or a class whose instances do.

    Args:
        reads: Fields required before its `yield`.
        writes: Fields set before its `yield`.
        optional: Fields read if set, or only after its `yield`.
        either: Fields of which it takes one, so that later middleware find None; at least one is
            required before its `yield`, if any middleware of the task writes one.
        uses: Objects that it shares with other middleware, such as the buffer; those that share one
            take turns in async mode. None: the objects with `state_dict` that it refers to.
        role: Tasks with roles run it only if they have this one, see `Task.has_role`.

    Returns:
        A decorator that sets the attributes of these names and returns the same object.
    """

    def mark(fn: F) -> F:
        for part, names in zip(Fields._fields, (reads, writes, optional, either), strict=True):
            setattr(fn, part, _names(fn, part, names))
        for part, value in (("uses", uses), ("role", role)):
            if value is not None:
                setattr(fn, part, value)
        return fn

    return mark


def fields_of(fn: object) -> Fields:
    """Returns the declared fields of a middleware; none if nothing is declared."""
    return Fields(*(_names(fn, part, getattr(fn, part, ())) for part in Fields._fields))


def _names(fn: object, part: str, names: object) -> tuple[str, ...]:
    found = (names,) if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if isinstance(names, str) or not all(isinstance(name, str) for name in found):
        raise TaskError(
            f"{fn!r}: '{part}' must be a collection of field names, got {names!r}",
            hint=f"write {part}=('train_data', ...)",
        )
    return found


Lock = AbstractContextManager[object]


@dataclass(frozen=True, slots=True)
class MiddlewareSpec:
    """A middleware with the result of its inspection.

    `call` is the middleware with its lock and wrappers; `yields`: it is a generator function.
    `members` are those of a combined middleware; `together`: they may run concurrently.
    """

    call: Middleware
    yields: bool
    name: str
    fields: Fields
    members: tuple[MiddlewareSpec, ...] = ()
    together: bool = False
    fn: Middleware | None = None
    """The middleware itself."""


class Combined:
    """Several middleware combined into one by `Task.serial` or `Task.parallel`."""

    def __init__(
        self,
        kind: str,
        members: tuple[MiddlewareSpec, ...],
        run: Callable[[Sequence[MiddlewareSpec], Context], object],
    ) -> None:
        self.__name__ = self.__qualname__ = f"{kind}({', '.join(part.name for part in members)})"
        self.members = members
        self.together = kind == "parallel"
        self._run = run

    def __call__(self, ctx: Context) -> None:
        self._run(self.members, ctx)


def inspect_middleware(fn: Middleware, lock: bool | Lock = False) -> MiddlewareSpec:
    """Inspects a callable that takes the context; raises `TaskError` if it is something else.

    With `lock` True its calls exclude each other; with a lock, also the other users of the lock.
    """
    _refuse_unfit(fn)
    call, name = fn, name_of(fn)
    if lock is not False:
        call = _locked(fn, threading.Lock() if lock is True else lock)
        call.__qualname__ = name
    if isinstance(fn, Combined):
        return MiddlewareSpec(call, False, name, Fields(), fn.members, fn.together, fn)
    yields = any(map(inspect.isgeneratorfunction, (fn, _call_of(fn))))
    return MiddlewareSpec(call, yields, name, fields_of(fn), fn=fn)


def wrapped(part: MiddlewareSpec, wrapper: Callable[[Middleware], Middleware]) -> MiddlewareSpec:
    """Applies a wrapper to a middleware; name, fields and members are unchanged."""
    call = wrapper(part.call)
    try:
        _refuse_unfit(call)
    except TaskError as error:
        raise TaskError(
            f"wrapper '{name_of(wrapper)}' does not return a middleware for '{part.name}':"
            f" {error.message}",
            hint="return a function that takes the context",
        ) from None
    return replace(part, call=call)


def name_of(fn: object) -> str:
    """Returns the name of a callable for people: `make.inner`, `Collector`, `<lambda> (f.py:3)`."""
    if isinstance(fn, partial):
        return name_of(fn.func)
    name = getattr(fn, "__qualname__", None) or type(fn).__qualname__
    name = str(name).replace(".<locals>", "").removesuffix(".__call__")
    code = getattr(fn, "__code__", None)
    if name.endswith("<lambda>") and code is not None:
        return f"{name} ({code.co_filename.rpartition('/')[2]}:{code.co_firstlineno})"
    return name


def suspended_in(result: object, name: str) -> Suspended:
    """Returns the generator that a middleware returned, named like the middleware."""
    if isinstance(result, GeneratorType):
        result.__qualname__ = name  # not that of a wrapper
        return result
    hint = "write results to the context and return None"
    if callable(result):
        hint = f"is it a factory? Then call it: task.use({name}(...))"
    raise TaskError(f"middleware '{name}' returned a {type(result).__name__}", hint=hint)


def _refuse_unfit(fn: object) -> None:
    name = name_of(fn)
    if inspect.isclass(fn):
        raise TaskError(
            f"{name} is a class, not a middleware", hint=f"pass an instance: task.use({name}(...))"
        )
    if isinstance(fn, GeneratorType):
        raise TaskError(
            f"'{name}' was called already; pass the function itself", hint=f"task.use({name})"
        )
    if not callable(fn):
        raise TaskError(f"a middleware must be a callable that takes the context, got {fn!r}")
    is_async = inspect.iscoroutinefunction, inspect.isasyncgenfunction
    if any(test(each) for test in is_async for each in (fn, _call_of(fn))):
        raise TaskError(
            f"middleware '{name}' is an async function", hint="write 'def', with 'yield'"
        )
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # some C functions have no signature
        return
    try:
        signature.bind(None)
    except TypeError:
        raise TaskError(
            f"{name}{signature} cannot be called with only a context",
            hint=f"is it a factory? Then call it: task.use({name}(...))",
        ) from None


def _call_of(fn: object) -> object:
    while isinstance(fn, partial):
        fn = fn.func
    return type(fn).__call__


def _locked(fn: Middleware, lock: Lock) -> Middleware:
    """Holds a lock during each half of a middleware, but not between the halves."""

    def call(ctx: Context) -> Suspended | None:
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
                yield from suspended  # the task raises an error for a second yield
        finally:
            suspended.close()

    return call


_ENDED = object()


def check_order(parts: Sequence[MiddlewareSpec], ctx: Context) -> None:
    """Checks that every field read is kept from step to step or written by an earlier middleware.

    Raises `TaskError` with all fields that are not, those written only after all readers have run,
    and those that the context does not declare.
    """
    placed: list[tuple[MiddlewareSpec, frozenset[str]]] = []
    _place(parts, frozenset(), placed)
    problems: list[str] = []
    for part, before in placed:
        problems += [
            f"'{part.name}' needs a field '{name}', which {type(ctx).__name__} lacks"
            for name in dict.fromkeys((*part.fields.reads, *part.fields.writes))
            if not ctx.has_attr(name)
        ]
        problems += _too_early(part, before, [each for each, _ in placed], ctx)
    for index, (part, _) in enumerate(placed):
        problems += _lost(part, [each for each, _ in placed], index, ctx)
    if problems:
        raise TaskError(
            "\n".join(problems), hint=_remedy(problems, ctx), context={"problems": tuple(problems)}
        )


def _place(
    parts: Sequence[MiddlewareSpec],
    before: frozenset[str],
    placed: list[tuple[MiddlewareSpec, frozenset[str]]],
    *,
    together: bool = False,
) -> frozenset[str]:
    """Appends each middleware with the fields written before it; returns those written by now."""
    after = before
    for part in parts:
        seen = before if together else after
        if part.members:
            after |= _place(part.members, seen, placed, together=part.together)
        else:
            placed.append((part, seen))
            after = (after - {*part.fields.either}) | {*part.fields.writes}  # it takes the either
    return after


def _remedy(problems: Sequence[str], ctx: Context) -> str:
    cls = type(ctx).__name__
    if all(text.endswith(f"which {cls} lacks") for text in problems):
        return f"start the task with a context that has them: a subclass of {cls}" + (
            ", such as OnlineRLContext" if type(ctx) is Context else ""
        )
    return "use each middleware after one that declares the field: @middleware(writes=[...])"


def _too_early(
    part: MiddlewareSpec, before: frozenset[str], everything: Sequence[MiddlewareSpec], ctx: Context
) -> Iterable[str]:
    """Yields a problem for each field read before it is written, and for one of the `either`."""
    writers = {
        name: [each.name for each in everything if name in each.fields.writes and each is not part]
        for name in (*part.fields.reads, *part.fields.either)
    }
    either = [name for name in part.fields.either if writers[name]]
    wanted = [*part.fields.reads, *([] if before & {*part.fields.either} else either[:1])]
    for name in wanted:
        if ctx.has_attr(name) and not ctx.keeps(name) and name not in before:
            text = f"'{part.name}' reads ctx.{name}, which no earlier middleware writes or leaves"
            others = ", ".join(map(repr, writers[name]))
            yield f"{text}; {others} does" if others else text


def _lost(
    part: MiddlewareSpec, everything: Sequence[MiddlewareSpec], index: int, ctx: Context
) -> Iterable[str]:
    """Yields a problem for each field that this part writes after all that read it have run."""
    for name in part.fields.writes:
        own = name in part.fields.reads  # it changes what others wrote
        needed = {at for at, each in enumerate(everything) if name in each.fields.reads}
        readers = {at for at, each in enumerate(everything)
                   if name in (*each.fields.optional, *each.fields.either)}  # fmt: skip
        readers = (readers | needed if own else readers) - {index}
        waits = any(everything[at].yields for at in readers) or (needed and not own)
        if readers and max(readers) < index and not (waits or ctx.keeps(name)):
            names = ", ".join(repr(everything[at].name) for at in sorted(readers))
            yield f"'{part.name}' writes ctx.{name} after {names}, which would read it, has run"
