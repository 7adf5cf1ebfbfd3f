"""What a stage sees of the context in async mode: the fields that it declares."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from dicore.errors import TaskError
from dicore.task import Context, OnlineRLContext
from dicore_plugins.executors.plan import Stage

__all__ = ["View"]


class View(NamedTuple):
    """The form of the contexts of a stage.

    Args:
        stage: Name of the stage.
        cls: Their class: that of the task's context, without the fields that are not declared.
        visible: The declared fields, of `fields`, `kept` and `lagged`.
        fields: Those that begin anew in every step.
        kept: Those that are carried over, as the steps before left them.
        lagged: Those that are carried over, as they were `max_lag` steps before.
        writes: Those that it may set.
    """

    stage: str
    cls: type[Context]
    visible: tuple[str, ...]
    fields: tuple[str, ...]
    kept: tuple[str, ...]
    lagged: tuple[str, ...]
    writes: Collection[str]

    @classmethod
    def of(
        cls, context: type[Context], stage: Stage, lagged: Collection[str], kept: Collection[str]
    ) -> View:
        """Returns the form for a stage; one that declares nothing sees all fields."""
        everything = [name for name in context.__dataclass_fields__ if name != "total_step"]
        declared = stage.reads | stage.writes
        seen = [name for name in everything if stage.alone or name in declared]
        hidden = {name: _Hidden(stage.spec.name, name) for name in everything if name not in seen}
        return cls(
            stage.spec.name,
            type(context.__name__, (context,), {**hidden, "__repr__": _shown})
            if hidden
            else context,
            (*seen, "total_step"),
            tuple(name for name in seen if name not in kept),
            tuple(name for name in seen if name in kept and name not in lagged),
            tuple(name for name in seen if name in kept and name in lagged),
            {*everything} if stage.alone else stage.writes,
        )

    def undeclared(self, verb: str, name: str) -> TaskError:
        """Returns the error of a field that the stage `reads` or `sets`, but does not declare."""
        return _undeclared(self.stage, verb, name)


class _Hidden:
    """A field that a stage does not declare."""

    def __init__(self, stage: str, name: str) -> None:
        self._stage, self._name = stage, name

    def __get__(self, ctx: OnlineRLContext, owner: Any = None) -> Any:
        raise _undeclared(self._stage, "reads", self._name)

    def __set__(self, ctx: OnlineRLContext, value: Any) -> None:
        raise _undeclared(self._stage, "sets", self._name)


def _shown(ctx: Context) -> str:
    found = ", ".join(f"{name}={value!r}" for name, value in vars(ctx).items() if name != "_kept")
    return f"{type(ctx).__name__}({found})"


def _undeclared(stage: str, verb: str, name: str) -> TaskError:
    return TaskError(
        f"'{stage}' {verb} ctx.{name}, which it does not declare; in async mode another middleware"
        " may run meanwhile",
        hint=f"add '{name}' to its {'reads' if verb == 'reads' else 'writes'}"
        " (dicore.task.middleware)",
    )
