"""Which parts of a step wait for which others, from the declared fields of the middleware.

A stage is a middleware; it has two nodes: the part before its `yield` and the part after it. Nodes
are numbered in the order in which a task without async mode runs them, and sets of them are bits of
an int.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any

from dicore.run.run import Run
from dicore.task import Context
from dicore.task.middleware import Combined, Fields, MiddlewareSpec

__all__ = ["Plan", "Stage", "owners"]

Path = tuple[tuple[int, int, bool], ...]
"""Of each combined middleware around a stage: its id, the index of the member, and `together`."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A middleware with what it shares with others.

    Args:
        spec: The middleware.
        path: The combined middleware that it is in.
        reads: Fields that it may read.
        writes: Fields that it may set.
        uses: Ids of the objects that it uses.
        alone: It declares nothing, so nothing else may run meanwhile.
    """

    spec: MiddlewareSpec
    path: Path
    reads: frozenset[str]
    writes: frozenset[str]
    uses: frozenset[int]
    alone: bool

    @classmethod
    def of(cls, spec: MiddlewareSpec, path: Path = ()) -> Stage:
        """Reads the declarations of a middleware; a combined one has those of its members."""
        leaves = list(_leaves(spec))
        fields = [each.fields for each in leaves]
        reads = {name for each in fields for name in (*each.reads, *each.optional, *each.either)}
        writes = {name for each in fields for name in (*each.writes, *each.either)}
        uses = {id(each) for leaf in leaves for each in _used_by(leaf.fn)}
        alone = any(each.fields == Fields() and not hasattr(each.fn, "uses") for each in leaves)
        return cls(spec, path, frozenset(reads), frozenset(writes), frozenset(uses), alone)


class Plan:
    """The stages of a task, and what each node waits for.

    Args:
        parts: The middleware of the task.
        ctx: A context, which says what fields are kept.

    Attributes:
        stages: The stages, in order.
        lagged: Of each stage, the kept fields that only later stages write.
        same: Of each node, the nodes of its step that come first.
        before: Of each node, the nodes of the step before that come first.
        count: Number of stages.
        stage_of: Of each node, the index of its stage.
    """

    def __init__(self, parts: Sequence[MiddlewareSpec], ctx: Context) -> None:
        self.stages = list(_stages(parts))
        count = len(self.stages)
        fields = ctx.__dataclass_fields__
        self._kept = frozenset(name for name in fields if ctx.keeps(name)) - {"total_step"}
        self._first = {
            name: min(at for at, each in enumerate(self.stages) if name in each.writes)
            for name in {name for each in self.stages for name in each.writes}
        }
        exclusive = [at for at, each in enumerate(self.stages) if each.alone]
        if exclusive:  # it may write any field
            for name in self._kept:
                self._first[name] = min(self._first.get(name, count), exclusive[0])
        self.lagged = [
            frozenset(name for name in self._kept if self._first.get(name, -1) > at)
            for at in range(count)
        ]
        self.nodes = range(2 * count)
        self.count = count
        self.stage_of = [*range(count), *reversed(range(count))]
        self.all = (1 << 2 * count) - 1
        self.same = [self._waits(node, range(node), self._in_step) for node in self.nodes]
        self.before = [self._waits(node, self.nodes, self._across) for node in self.nodes]
        self._followers: dict[int, tuple[int, int]] = {}

    def followers(self, ended: int) -> tuple[int, int]:
        """Returns the nodes that may wait for some nodes, of the same step and of the next one."""
        found = self._followers.get(ended)
        if found is None:
            found = self._followers[ended] = (
                sum(1 << node for node in self.nodes if self.same[node] & ended),
                sum(1 << node for node in self.nodes if self.before[node] & ended),
            )
        return found

    def backward(self, stage: int) -> int:
        """Returns the node after the `yield` of a stage."""
        return 2 * self.count - 1 - stage

    def users(self, used: int) -> frozenset[int]:
        """Returns the stages that use an object, by its id."""
        return frozenset(
            at for at, each in enumerate(self.stages) if each.alone or used in each.uses
        )

    def _waits(self, node: int, others: Iterable[int], conflict: Any) -> int:
        return sum(1 << other for other in others if conflict(other, node))

    def _in_step(self, first: int, then: int) -> bool:
        """Returns whether a node waits for an earlier one of its step."""
        one, two = self.stage_of[first], self.stage_of[then]
        if then >= len(self.stages) and (one >= two or first >= len(self.stages)):
            return True  # what follows a yield comes after all later middleware
        a, b = self.stages[one], self.stages[two]
        if a.writes & b.writes:
            return True
        shared = not a.uses.isdisjoint(b.uses) or (
            (a.alone or b.alone) and not _apart(a.path, b.path)
        )
        return bool(shared or a.writes & b.reads or (a.reads - self.lagged[one]) & b.writes)

    def _across(self, first: int, then: int) -> bool:
        """Returns whether a node waits for one of the step before."""
        one, two, count = self.stage_of[first], self.stage_of[then], len(self.stages)
        a, b = self.stages[one], self.stages[two]
        kept = a.writes & self._kept
        if one == two:  # an object may keep what its second half needs
            function = inspect.isroutine(a.spec.fn) and not kept & a.reads
            return (first < count) == (then < count) or not function or self._ordered(a, b)
        return bool(self._ordered(a, b) or kept & b.writes or kept & (b.reads - self.lagged[two]))

    @staticmethod
    def _ordered(a: Stage, b: Stage) -> bool:
        return a.alone or b.alone or not a.uses.isdisjoint(b.uses)


def _stages(parts: Iterable[MiddlewareSpec], path: Path = ()) -> Iterator[Stage]:
    """Yields the stages; the members of a combined middleware are stages, unless it is wrapped."""
    for part in parts:
        if part.members and part.call is part.fn:
            for index, member in enumerate(part.members):
                yield from _stages([member], (*path, (id(part.fn), index, part.together)))
        else:
            yield Stage.of(part, path)


def _leaves(spec: MiddlewareSpec) -> Iterator[MiddlewareSpec]:
    if not spec.members:
        yield spec
    for member in spec.members:
        yield from _leaves(member)


def _apart(one: Path, other: Path) -> bool:
    """Returns whether two stages are in different members of one `parallel`."""
    for (a, index, together), (b, other_index, _) in zip(one, other, strict=False):
        if a != b:
            return False
        if index != other_index:
            return together
    return False


def _used_by(fn: Any) -> Iterator[Any]:
    """Yields the objects that a middleware declares to use, or the parts that it refers to."""
    declared = getattr(fn, "uses", None)
    if declared is not None:
        for each in declared:
            found = list(owners(each))
            yield from found or [each]
        return
    for each in _referred(fn):
        yield from owners(each)


def _referred(fn: Any) -> Iterator[Any]:
    if isinstance(fn, partial):
        yield from (*fn.args, *fn.keywords.values())
        yield from _referred(fn.func)
    elif inspect.ismethod(fn):
        yield from _referred(fn.__self__)
    elif inspect.isfunction(fn):
        found = inspect.getclosurevars(fn)
        yield from (*found.nonlocals.values(), *found.globals.values())
    elif not isinstance(fn, Combined) and hasattr(fn, "__dict__"):
        yield from vars(fn).values()


def owners(given: Any, seen: frozenset[int] = frozenset()) -> Iterator[Any]:
    """Yields the parts with state behind an object: the policy of a mode, the buffers of a list.

    Functions have the parts that they refer to, such as a reward model.
    """
    if id(given) in seen or isinstance(given, Run):
        return
    for each in _inside(given):
        yield from owners(each, seen | {id(given)})
    if _is_part(given):
        yield given


def _inside(given: Any) -> Iterable[Any]:
    """Returns what an object that is no part itself consists of, and the policy of a part."""
    if isinstance(given, Mapping):
        return given.values()
    if isinstance(given, list | tuple):  # also a mode, which is a tuple of functions
        return given
    if inspect.ismethod(given):
        return (given.__self__,)
    if inspect.isfunction(given):
        return inspect.getclosurevars(given).nonlocals.values()
    return (given.policy,) if _is_part(given) and hasattr(given, "policy") else ()


def _is_part(given: object) -> bool:
    if isinstance(given, type | ModuleType | tuple):
        return False
    try:
        return hasattr(type(given), "learn_mode") or callable(getattr(given, "state_dict", None))
    except Exception:  # of any `__getattr__`
        return False
