"""The executor role: runs the middleware of a task in async mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from dicore.task import Context
from dicore_registry import Contract, Kind

__all__ = ["KIND", "IExecutor"]

KIND = Kind(
    name="executor",
    summary="runs middleware at the same time where their declared fields allow it",
    contract="dicore_plugins.executors.interface:IExecutor",
    suite="dicore_plugins.executors.contract:ExecutorContract",
    use="task.start(async_mode=True)",
)


@runtime_checkable
class IExecutor(Contract, Protocol):
    """Made by `task.start(async_mode=True)` with the task and the number of workers."""

    here: Any
    """By thread: `ctx`, `suspended`, `finish` and `last` of what the thread runs."""
    max_lag: int
    """Steps that a middleware may be behind those that write a kept field later in the list."""
    cancelled: bool
    """The run ends by an error or Ctrl-C: what runs long asks for it and raises StepInterrupted."""

    def run(self, max_step: int | None) -> None:
        """Runs steps until `here.finish` is set, at most `max_step`; returns when all have ended.

        The first exception of a middleware is raised, once no other is running.
        """

    def at_rest(self, fn: Callable[[], None] | None) -> None:
        """Calls a function as soon as all steps begun are complete; no middleware runs meanwhile.

        `task.ctx` is that of the last complete step then. A middleware calls it to save a state;
        what runs in the background has ended. None: only the functions of `on_rest` are called.
        """

    def on_rest(self, fn: Callable[[Context], None]) -> None:
        """Calls a function with the context each time the task is at rest, also at the end.

        What it begins in the background ends before the functions of `at_rest` are called.
        """

    def background(self, name: str, fn: Callable[[], None]) -> None:
        """Runs a function beside the middleware; the next rest waits for it."""

    def acting(self, mode: Any) -> Any:
        """Returns a mode that acts by versions of the parameters; None if it cannot be copied."""
