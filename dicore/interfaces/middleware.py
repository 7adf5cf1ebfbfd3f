"""The middleware role: a callable of the context that does one thing of each step.

It runs up to its `yield` (or to its end) in the forward pass; what stands after the `yield` runs
in the backward pass, last in first out.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Protocol, runtime_checkable

from dicore_registry import Kind

KIND = Kind(
    name="middleware",
    summary="one thing that a training step does: collect, push, learn, evaluate, save",
    contract="dicore.interfaces.middleware:IMiddleware",
    suite="dicore.testing.middleware:MiddlewareContract",
)

Suspended = Generator[None, None, None]
"""A middleware that has run up to its `yield`."""


@runtime_checkable
class IMiddleware(Protocol):
    """What `task.use` takes; a registered component is called with its options to make one.

    It may carry `reads`, `writes` and `optional`, tuples of names of context fields; see
    `dicore.task.middleware`.
    """

    def __call__(self, ctx: Any, /) -> Suspended | None:
        """Reads fields of the context, works, writes fields of the context."""


@runtime_checkable
class SupportsJoin(Protocol):
    """A middleware that wants to know its task before the first step, to listen to its events."""

    def join_task(self, task: Any, /) -> None:
        """Is called by `task.use`."""


@runtime_checkable
class DeclaresFields(Protocol):
    """A middleware that says which fields of the context it needs and which it sets."""

    reads: tuple[str, ...]
    """Fields it cannot do without in the forward pass."""
    writes: tuple[str, ...]
    """Fields it sets in the forward pass."""
    optional: tuple[str, ...]
    """Fields it looks at where they are set, or only after its `yield`."""
