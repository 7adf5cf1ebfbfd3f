"""The contract of middleware (`IMiddleware`): runs in a task, uses only declared fields."""

from __future__ import annotations

import dataclasses
from typing import Any

from dicore.errors import TaskError
from dicore.interfaces.middleware import IMiddleware
from dicore.task import Context, OnlineRLContext, Task, task
from dicore.task.middleware import fields_of, inspect_middleware
from dicore.testing.suite import Suite, expect

__all__ = ["MiddlewareContract", "watched"]


def watched(base: type[Context]) -> type:
    """Returns a subclass of a context class that records which fields are read and set.

    They are in the class attributes `read` and `written`, sets of names.
    """
    names = {field.name for field in dataclasses.fields(base)}

    class Watched(base):  # type: ignore[misc,valid-type] # the class is the argument
        read: set[str] = set()  # noqa: RUF012 - one set for all steps
        written: set[str] = set()  # noqa: RUF012 - as above

        def __getattribute__(self, name: str) -> object:
            if name in names:
                type(self).read.add(name)
            return super().__getattribute__(name)

        def __setattr__(self, name: str, value: object) -> None:
            if value is not None:
                type(self).written.add(name)
            super().__setattr__(name, value)

    return Watched


class MiddlewareContract(Suite):
    """Conformance suite of middleware: subclass it and override `make` (and `prepare`)."""

    context_class: type[Context] = OnlineRLContext

    def make(self) -> Any:
        """Returns a middleware (`IMiddleware`); called in a started task."""
        return self.registered.build()

    def prepare(self, ctx: object) -> None:
        """Sets the fields that the middleware reads."""

    def test_call_takes_only_the_context(self) -> None:
        """`task.use` accepts it: it is called with the context only."""
        with self._started():
            made = self.make()
            expect(isinstance(made, IMiddleware), f"{made!r} is not callable")
            try:
                inspect_middleware(made)
            except TaskError as error:
                expect(False, f"task.use raises: {error}")

    def test_declares_fields_of_its_context(self) -> None:
        """All declared fields are fields of the context class."""
        with self._started():
            declared = fields_of(self.make())
        for name in (*declared.reads, *declared.writes, *declared.optional):
            known = self.context_class().has_attr(name)
            expect(
                known,
                f"it declares '{name}', which is not a field of {self.context_class.__name__}",
            )

    def test_uses_only_declared_fields(self) -> None:
        """It reads and sets declared fields only."""
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
                expect(not unset, f"it sets undeclared fields: {', '.join(sorted(unset))}")
                expect(not unread, f"it reads undeclared fields: {', '.join(sorted(unread))}")
                task.renew()

    def test_runs_several_steps(self) -> None:
        """It runs several steps, each with a new context."""
        with self._started():
            made = self.make()
            task.use(_writer(self, fields_of(made).reads)).use(made)
            task.run(max_step=3)
            expect(
                task.ctx.total_step == 2,
                f"total_step after 3 steps: expected 2, got {task.ctx.total_step}",
            )

    def _started(self) -> Task:
        return task.start(ctx=watched(self.context_class)())


def _writer(suite: MiddlewareContract, names: tuple[str, ...]) -> Any:
    """Returns a middleware that sets the fields which the tested one reads."""
    from dicore.task import middleware

    @middleware(writes=names)
    def write(ctx: object) -> None:
        suite.prepare(ctx)

    return write
