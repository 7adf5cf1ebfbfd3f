"""The steps in flight of a task in async mode: which node may run next, and with which values.

Every middleware gets a context of its own. Its fields have the values that middleware before it in
the order of the task have written; kept fields that only later middleware write have those of
`max_lag` steps earlier, whatever is complete already, so that a run does not depend on timing.
"""

from __future__ import annotations

from typing import Any

from dicore.errors import TaskError
from dicore.interfaces.middleware import Suspended
from dicore.task import Context
from dicore_plugins.executors.plan import Plan

__all__ = ["Node", "Schedule", "Step"]

Values = dict[str, Any]


class Step:
    """A step in flight.

    Args:
        number: Its `total_step`.
        values: Fields that are set in it; kept fields that are not are those of the step before.
        previous: The step before.
    """

    def __init__(self, number: int, values: Values, previous: Step | None) -> None:
        self.number, self.values, self.previous = number, values, previous
        self.started = self.done = 0
        self.views: dict[int, Any] = {}
        self.suspended: dict[int, list[Suspended]] = {}

    def value(self, name: str) -> Any:
        """Returns the newest value of a field."""
        step: Step | None = self
        while step is not None and name not in step.values:
            step = step.previous
        return None if step is None else step.values[name]


class Node:
    """One part of a stage in a step, to be run.

    Args:
        step: The step.
        index: See `Plan`.
        stage: The index of its stage.
        view: The context of the stage.
        given: The values of its fields.
    """

    def __init__(self, step: Step, index: int, stage: int, view: Context, given: Values) -> None:
        self.step, self.index, self.stage, self.view, self.given = step, index, stage, view, given


class Schedule:
    """The steps in flight; its methods are called under a lock.

    Args:
        plan: See `Plan`.
        ctx: The context of the last step, or of the first one.
        spent: `ctx` is that of the last step.
        max_lag: Steps in flight besides the oldest.
        max_step: Number of steps; None: any.

    Attributes:
        last: Number of the last step; None: not known yet.
        pause: The step after which the task is to be at rest; None: none.
        cut: The step that was interrupted; None: none.
        running: Number of nodes that are running.
        lags: Of each lagged counter, how far the version last read is behind the newest.
    """

    def __init__(
        self, plan: Plan, ctx: Context, *, spent: bool, max_lag: int, max_step: int | None
    ) -> None:
        self._plan = plan
        self._max_lag = max_lag
        self._class = type(ctx)
        first = ctx.total_step + spent
        self.last = None if max_step is None else first + max_step - 1
        self.pause: int | None = None
        self.cut: int | None = None
        self.running = 0
        self.lags: dict[str, Any] = {}
        self._first = None if spent else ctx
        self._steps: list[Step] = []
        base = Step(first - 1, {**vars(ctx), "total_step": first - 1}, None)
        base.values.setdefault("_kept", {})
        base.done = plan.all
        self._past = [base]
        self._next = first

    # ---- which node is next

    def next_node(self) -> Node | None:
        """Returns a node that may run now; begins a step if it must. None: nothing may run now."""
        while True:
            for step in self._steps:
                if self.cut is not None and step.number >= self.cut:
                    break
                node = self._ready(step)
                if node is not None:
                    return node
            if not self._may_begin():
                return None
            self._begin()

    def _ready(self, step: Step) -> Node | None:
        plan = self._plan
        waiting = plan.all & ~step.started
        before = step.previous.done if step.previous is not None else plan.all
        while waiting:
            index = (waiting & -waiting).bit_length() - 1
            waiting &= waiting - 1
            if not (plan.same[index] & ~step.done or plan.before[index] & ~before):
                return self._start(step, index)
        return None

    def _start(self, step: Step, index: int) -> Node:
        step.started |= 1 << index
        self.running += 1
        stage = self._plan.stage_of(index)
        values = self._values(step, stage)
        view = step.views.get(stage)
        if view is None:
            view = step.views[stage] = object.__new__(self._class)
        else:
            values.update((name, step.value(name)) for name in self._plan.lagged[stage])
        vars(view).update(values)
        return Node(step, index, stage, view, values)

    def _values(self, step: Step, stage: int) -> Values:
        """Returns the fields that a stage may see."""
        values, lagged = dict(step.values), self._plan.lagged[stage]
        for name in values["_kept"]:
            if name in lagged:
                newest = step.value(name)
                wanted = step.number - 1 - self._max_lag
                past = [each for each in self._past if each.number <= wanted] or self._past[:1]
                value = values[name] = past[-1].values[name]
                if value is not newest and value.__class__ is int and newest.__class__ is int:
                    self.lags[name] = newest - value
            elif name not in values:
                values[name] = step.value(name)
        return values

    def _may_begin(self) -> bool:
        if self.over:
            return False
        if self.pause is not None and self._next > self.pause:
            return False
        return len(self._steps) <= self._max_lag

    def _begin(self) -> None:
        newest = self._steps[-1] if self._steps else self._past[-1]
        if self._first is not None:
            values, self._first = {"_kept": {}, **vars(self._first)}, None
        else:
            old = object.__new__(self._class)
            vars(old).update(newest.values)
            vars(old).update((name, newest.value(name)) for name in newest.values["_kept"])
            values = dict(vars(old.renew()))
        for name in values["_kept"]:
            values.pop(name, None)
        values["total_step"] = self._next
        self._steps.append(Step(self._next, values, newest))
        self._next += 1

    # ---- what has ended

    def ended(self, node: Node, suspended: list[Suspended]) -> None:
        """Takes over what a node has set; `suspended` are the middleware that it suspended."""
        step, plan = node.step, self._plan
        self.running -= 1
        self.take(node)
        if node.index < len(plan.stages):
            if suspended:
                step.suspended[node.stage] = suspended
            else:
                back = 1 << plan.backward(node.stage)
                step.started |= back
                step.done |= back
        step.done |= 1 << node.index
        while self._steps and self._steps[0].done == plan.all:
            self._complete(self._steps.pop(0))

    def take(self, node: Node) -> None:
        """Takes over the fields that a node has set.

        Raises:
            TaskError: it has set a field that it does not declare.
        """
        stage, given = self._plan.stages[node.stage], node.given
        for name, value in vars(node.view).items():
            if value is given.get(name, given):
                continue
            if not (stage.alone or name in stage.writes or name == "_kept"):
                raise TaskError(
                    f"'{stage.spec.name}' sets ctx.{name}, which it does not declare; in async mode"
                    " another middleware may run meanwhile",
                    hint=f"add '{name}' to its writes (dicore.task.middleware)",
                )
            node.step.values[name] = value

    def _complete(self, step: Step) -> None:
        for name in step.values["_kept"]:
            step.values[name] = step.value(name)
        step.previous = None
        step.views.clear()
        if self._steps:
            self._steps[0].previous = step
        kept = {*step.values["_kept"], "_kept", "total_step"}
        for each in self._past:  # only the fields of the newest are needed
            for name in [name for name in each.values if name not in kept]:
                del each.values[name]
        self._past.append(step)
        wanted = step.number - self._max_lag
        while len(self._past) > 1 and self._past[1].number <= wanted:
            del self._past[0]

    def interrupt(self, node: Node) -> None:
        """A node ended its step, which is to be repeated; earlier steps are completed."""
        self.running -= 1
        self.cut = node.step.number if self.cut is None else min(self.cut, node.step.number)

    # ---- rest

    @property
    def newest(self) -> Step:
        """The last complete step."""
        return self._past[-1]

    @property
    def over(self) -> bool:
        """The last step is complete, or a step was interrupted."""
        return self.cut is not None or (self.last is not None and self._next > self.last)

    def resting(self) -> bool:
        """Returns whether nothing runs and nothing may."""
        waiting = [each for each in self._steps if self.cut is None or each.number < self.cut]
        return not (self.running or waiting or self._may_begin())

    def restart(self) -> None:
        """Goes on as if the run began after the last complete step."""
        self.pause = None
        self._past = self._past[-1:]

    def context(self) -> Context:
        """Returns the context of the last complete step; after a cut, of the one to repeat."""
        ctx = object.__new__(self._class)
        vars(ctx).update(self._past[-1].values)
        return ctx if self.cut is None else ctx.renew()

    def drop(self) -> list[Suspended]:
        """Drops the steps in flight; returns the middleware that they suspended, in order."""
        steps, self._steps = self._steps, []
        return [each for step in steps for _, found in sorted(step.suspended.items())
                for each in found]  # fmt: skip
