"""What a middleware says about itself: the context fields it reads and writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from dicore.errors import TaskError

__all__ = ["Fields", "fields_of", "middleware"]

F = TypeVar("F", bound=Callable[..., Any])


class Fields(NamedTuple):
    """Names of context fields.

    Args:
        reads: Those a middleware cannot do without before its `yield`.
        writes: Those it sets before its `yield`.
        optional: Those it looks at where they are set, or only after its `yield`.
        either: Those of which it needs one before its `yield`.
    """

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
) -> Callable[[F], F]:
    """Marks a middleware with the context fields it reads and writes.

    The task reports a wrong order from these before its first step. It goes on the function that
    takes the context (inside a factory), or on a class whose instances do:

        def eps_greedy_handler(cfg):
            @middleware(reads=["env_step"], writes=["collect_kwargs"])
            def set_eps(ctx):
                ...
            return set_eps

    Args:
        reads: Fields it cannot do without before its `yield`.
        writes: Fields it sets before its `yield`.
        optional: Fields it looks at where they are set, or only after its `yield`.
        either: Fields of which it needs one before its `yield`: a middleware that writes one must
            not come after it while none comes before.

    Returns:
        A decorator that sets the four names and returns the same object.
    """

    def mark(fn: F) -> F:
        declared: Any = fn
        declared.reads = _names(fn, "reads", reads)
        declared.writes = _names(fn, "writes", writes)
        declared.optional = _names(fn, "optional", optional)
        declared.either = _names(fn, "either", either)
        return fn

    return mark


def fields_of(fn: Any) -> Fields:
    """Returns what a middleware declares; undeclared means no field.

    Raises:
        TaskError: a declaration is not a collection of names.
    """
    return Fields(*(_names(fn, part, getattr(fn, part, ())) for part in Fields._fields))


def _names(fn: Any, part: str, names: Any) -> tuple[str, ...]:
    found = (names,) if isinstance(names, str) or not isinstance(names, Iterable) else tuple(names)
    if isinstance(names, str) or not all(isinstance(name, str) for name in found):
        raise TaskError(
            f"{fn!r}: '{part}' holds names of context fields, got {names!r}",
            hint=f"write {part}=('train_data', ...)",
        )
    return found
