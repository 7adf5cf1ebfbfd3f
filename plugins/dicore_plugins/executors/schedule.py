"""The steps in flight of a task in async mode: which node may run next, and with which values.

Every middleware gets a context of its own. Its fields have the values that middleware before it in
the order of the task have written; kept fields that only later middleware write have those of
`max_lag` steps earlier, whatever is complete already, so that a run does not depend on timing.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from dicore.errors import TaskError
from dicore.interfaces.middleware import Suspended
from dicore.task import Context
from dicore_plugins.executors.plan import Plan
from dicore_plugins.executors.views import View

__all__ = ["Node", "Schedule", "Step"]

Values = dict[str, Any]


class Step:
    """A step in flight.

    Args:
        number: Its `total_step`.
        values: Fields that are set in it; kept fields that are not are those of the step before.
        previous: The step before.
        lagged: Kept fields of `max_lag` steps before it.
    """

    def __init__(
        self, number: int, values: Values, previous: Step | None, lagged: Values | None = None
    ) -> None:
        self.number, self.values, self.previous = number, values, previous
        self.lagged: Values = {} if lagged is None else lagged
        self.waiting = self.done = 0
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

    __slots__ = ("given", "index", "stage", "step", "view")

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
        ready: Steps and nodes that may run.
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
        self.ready: deque[tuple[Step, int]] = deque()
        self._first = None if spent else ctx
        self._steps: list[Step] = []
        base = Step(first - 1, {**vars(ctx), "total_step": first - 1}, None)
        self._kept = base.values.setdefault("_kept", {})
        self._views = [View.of(self._class, each, lagged, self._kept)
                       for each, lagged in zip(plan.stages, plan.lagged, strict=True)]  # fmt: skip
        base.done = plan.all
        self._past = [base]
        self._next = first

    # ---- which node is next

    def next_node(self) -> Node | None:
        """Returns a node that may run now; begins a step if it must. None: nothing may run now."""
        while True:
            while self.ready:
                step, index = self.ready.popleft()
                if self.cut is None or step.number < self.cut:
                    return self._start(step, index)
            if not self.may_begin():
                return None
            self._begin()

    def _offer(self, step: Step, candidates: int) -> None:
        """Adds the nodes of a step that wait for no other any more to those that are ready."""
        plan, done = self._plan, step.done
        before = step.previous.done if step.previous is not None else plan.all
        candidates &= step.waiting
        while candidates:
            bit = candidates & -candidates
            index = bit.bit_length() - 1
            candidates ^= bit
            if not (plan.same[index] & ~done or plan.before[index] & ~before):
                step.waiting ^= bit
                self.ready.append((step, index))

    def _start(self, step: Step, index: int) -> Node:
        self.running += 1
        stage = self._plan.stage_of[index]
        form, given = self._views[stage], step.values
        values = {"total_step": step.number, "_kept": self._kept}
        for name in form.fields:
            values[name] = given[name]
        for name in form.kept:
            values[name] = step.value(name)
        view = step.views.get(stage)
        if view is None:
            view = step.views[stage] = object.__new__(form.cls)
            for name in form.lagged:
                values[name] = step.lagged[name]
        else:  # after its yield it sees the newest
            for name in form.lagged:
                values[name] = step.value(name)
        vars(view).update(values)
        return Node(step, index, stage, view, values)

    def may_begin(self) -> bool:
        """Returns whether another step may begin."""
        if self.over or len(self._steps) > self._max_lag:
            return False
        return self.pause is None or self._next <= self.pause

    def _begin(self) -> None:
        newest = self._steps[-1] if self._steps else self._past[-1]
        if self._first is not None:
            values, self._first = {"_kept": {}, **vars(self._first)}, None
        else:
            old = object.__new__(self._class)
            vars(old).update(self._past[-1].values)
            values = vars(old.renew())
        for name in self._kept:
            values.pop(name, None)
        values["total_step"] = self._next
        wanted = self._next - 1 - self._max_lag
        lagged = self._past[0]
        for each in self._past:
            if each.number <= wanted:
                lagged = each
        step = Step(self._next, values, newest, lagged.values)
        step.waiting = self._plan.all
        self._steps.append(step)
        self._next += 1
        self._offer(step, self._plan.all)

    # ---- what has ended

    def ended(self, node: Node, suspended: list[Suspended]) -> None:
        """Takes over what a node has set; `suspended` are the middleware that it suspended."""
        step, plan = node.step, self._plan
        self.running -= 1
        self.take(node)
        over = 1 << node.index
        if node.index < plan.count:
            if suspended:
                step.suspended[node.stage] = suspended
            else:
                back = 1 << plan.backward(node.stage)
                step.waiting &= ~back
                over |= back
        step.done |= over
        same, then = plan.followers(over)
        self._offer(step, same)
        at = step.number - self._steps[0].number + 1
        if at < len(self._steps):
            self._offer(self._steps[at], then)
        while self._steps and self._steps[0].done == plan.all:
            self._complete(self._steps.pop(0))

    def take(self, node: Node) -> None:
        """Takes over the fields that a node has set.

        Raises:
            TaskError: it has set a field that it does not declare.
        """
        form, given, values = self._views[node.stage], node.given, node.step.values
        found = vars(node.view)
        for name in form.visible:
            value = found[name]
            if value is not given[name]:
                if name not in form.writes:
                    raise form.undeclared("sets", name)
                values[name] = value
        if found["_kept"] is not self._kept:
            raise TaskError(
                f"'{form.stage}' calls ctx.keep; in async mode other steps have begun already",
                hint="call keep in __post_init__ of the context",
            )

    def _complete(self, step: Step) -> None:
        for name in self._kept:
            step.values[name] = step.value(name)
        step.previous = None
        step.views.clear()
        if self._steps:
            self._steps[0].previous = step
        last = self._past[-1]  # only its kept fields are still needed
        for name in [*last.values]:
            if name not in self._kept and name not in ("_kept", "total_step"):
                del last.values[name]
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

    @property
    def lags(self) -> dict[str, int]:
        """Of each lagged counter, how far the version that is read is behind the newest."""
        step = self._steps[-1] if self._steps else self._past[-1]
        return {
            name: step.value(name) - step.lagged[name]
            for name in sorted(frozenset().union(*self._plan.lagged))
            if type(step.lagged.get(name)) is int and type(step.value(name)) is int
        }

    def resting(self) -> bool:
        """Returns whether nothing runs and nothing may."""
        waiting = [each for each in self._steps if self.cut is None or each.number < self.cut]
        return not (self.running or waiting or self.may_begin())

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
        self.ready.clear()
        return [each for step in steps for _, found in sorted(step.suspended.items())
                for each in found]  # fmt: skip
