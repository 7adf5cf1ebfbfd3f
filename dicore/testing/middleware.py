"""The contract of middleware (`IMiddleware`): it runs in a task and keeps to what it declares."""

from __future__ import annotations

import dataclasses
from typing import Any

from dicore.errors import TaskError
from dicore.interfaces.middleware import IMiddleware
from dicore.task import Context, OnlineRLContext, Task, task
from dicore.task.middleware import fields_of, inspect_middleware
from dicore.testing.suite import Suite, expect

__all__ = ["MiddlewareContract", "watched"]


def watched(base: type[Context]) -> type[Any]:
    """Returns a subclass of a context class that notes which fields are read and set.

    The notes are class attributes `read` and `written`, sets of names.
    """
    names = {field.name for field in dataclasses.fields(base)}

    class Watched(base):  # type: ignore[misc,valid-type] # the class is the argument
        read: set[str] = set()  # noqa: RUF012 - one set for all steps is what is wanted
        written: set[str] = set()  # noqa: RUF012 - as above

        def __getattribute__(self, name: str) -> Any:
            if name in names:
                type(self).read.add(name)
            return super().__getattribute__(name)

        def __setattr__(self, name: str, value: Any) -> None:
            if value is not None:
                type(self).written.add(name)
            super().__setattr__(name, value)

    return Watched


class MiddlewareContract(Suite):
    """Inherit it, override `make` (and `prepare`), and every check of a middleware is collected."""

    context_class: type[Context] = OnlineRLContext

    def make(self) -> Any:
        """Returns a middleware (`IMiddleware`); the process's task has been started."""
        return self.registered.build()

    def prepare(self, ctx: Any) -> None:
        """Sets the fields that the middleware reads, as those before it would."""

    def test_is_called_with_the_context_alone(self) -> None:
        """What it makes can be handed to `task.use`."""
        with self._started():
            made = self.make()
            expect(isinstance(made, IMiddleware), f"{made!r} cannot be called")
            try:
                inspect_middleware(made)
            except TaskError as error:
                expect(False, f"task.use refuses it: {error}")

    def test_declares_fields_of_its_context(self) -> None:
        """What it reads and writes are fields that the context class declares."""
        with self._started():
            declared = fields_of(self.make())
        for name in (*declared.reads, *declared.writes, *declared.optional):
            known = self.context_class().has_attr(name)
            expect(known, f"it declares '{name}', which {self.context_class.__name__} lacks")

    def test_touches_what_it_declares(self) -> None:
        """In a step it reads and sets no field that it does not declare."""
        with self._started():
            made = self.make()
            declared = fields_of(made)
            cls = type(task.ctx)
            for _ in range(2):
                self.prepare(task.ctx)
                cls.read.clear()  # type: ignore[attr-defined] # see `watched`
                cls.written.clear()  # type: ignore[attr-defined]
                task.forward(made)
                task.backward()
                read, written = set(cls.read), set(cls.written)  # type: ignore[attr-defined]
                known = {*declared.reads, *declared.writes, *declared.optional, "total_step"}
                unread, unset = read - known, written - {*declared.writes}
                expect(not unset, f"it sets {', '.join(sorted(unset))} without saying so")
                expect(not unread, f"it reads {', '.join(sorted(unread))} without saying so")
                task.renew()

    def test_runs_step_after_step(self) -> None:
        """Several steps in a row go through, each with a context of its own."""
        with self._started():
            made = self.make()
            task.use(_writer(self, fields_of(made).reads)).use(made)
            task.run(max_step=3)
            expect(task.ctx.total_step == 2, f"3 steps end at total_step {task.ctx.total_step}")

    def _started(self) -> Task:
        return task.start(ctx=watched(self.context_class)())


def _writer(suite: MiddlewareContract, names: tuple[str, ...]) -> Any:
    """A middleware that stands for those before the one under test."""
    from dicore.task import middleware

    @middleware(writes=names)
    def write(ctx: Any) -> None:
        suite.prepare(ctx)

    return write
