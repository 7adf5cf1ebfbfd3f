"""The middleware role: a callable that does one part of each training step.

The code up to `yield` runs in the forward pass. The code after it runs in the backward pass, in
reverse order of the middleware.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dicore.values import Suspended as Suspended  # noqa: PLC0414 - exported
from dicore_registry import Contract, Kind

if TYPE_CHECKING:
    from dicore.task import Task

KIND = Kind(
    name="middleware",
    summary="does one part of a training step: collect, push, learn, evaluate or save",
    contract="dicore.interfaces.middleware:IMiddleware",
    suite="dicore.testing.middleware:MiddlewareContract",
    use="task.use({attr}(…))  # from {module} import {attr}",
)


@runtime_checkable
class IMiddleware(Contract, Protocol):
    """An argument of `task.use`; a registered component returns one when called with its options.

    It may declare the context fields that it uses, see `dicore.task.middleware`.
    """

    def __call__(self, ctx: Any, /) -> Suspended | None:
        """Reads and writes fields of the context."""


@runtime_checkable
class SupportsJoin(Protocol):
    """A middleware that uses its task before the first step, to listen to events."""

    def join_task(self, task: Task, /) -> None:
        """Called by `task.use`."""
