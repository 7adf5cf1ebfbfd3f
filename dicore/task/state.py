"""The kept fields of a task's context as a part of a run: what a resumed task begins with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dicore.task.task import Task

__all__ = ["TaskState"]


class TaskState:
    """Reads the counters off a task's present context, and keeps those that were loaded.

    Args:
        task: The task.

    Attributes:
        values: The fields of the next step's context, by name; empty if no state was loaded.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self.values: dict[str, Any] = {}

    def state_dict(self) -> dict[str, Any]:
        """Returns the fields that the next step's context will have."""
        if not self._task.running:
            return dict(self.values)
        ctx = self._task.ctx
        names = [name for name in ctx.__dataclass_fields__ if ctx.keeps(name)]
        fields = {name: getattr(ctx, name) for name in names}
        return {**fields, "total_step": ctx.total_step + 1}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes the fields over."""
        self.values = dict(state)
