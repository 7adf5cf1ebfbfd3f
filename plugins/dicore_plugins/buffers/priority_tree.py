"""A tree of sums and minima over the slots of a ring, to draw slots in proportion to a mass.

Shapes: C the capacity, B slots.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dicore.data import Tree
from dicore.data.tree import is_tensor
from dicore.errors import ReplayPriorityError, UsageError
from dicore_plugins.buffers.memory import Fact, verdict

__all__ = [
    "Kernels", "PriorityTree", "annealed", "checked_priorities", "ids_of", "masses_of", "strata",
]  # fmt: skip

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
Kernels = Literal["auto", "numba", "numpy"]
_LOG = logging.getLogger("dicore.buffer")
_COMPILED = "dicore_plugins.buffers.priority_kernels"
_TOP = 1024
"""Nodes of the highest level, at most."""
_MOST = float(np.finfo(np.float32).max)
"""Largest priority: drawn ones are in float32."""
_BELOW = 1 - 2.0**-52
"""Times a node's sum: a float below the sum, so that rounding never chooses an empty slot."""


class PriorityTree:
    """Masses of C slots with their sums by four; finds the slot at a point of the total mass.

    Nodes are sums of their four children, computed anew at each change, so that no error
    accumulates. At most 1024 nodes have no parent: their running sum is computed at each draw,
    which costs less than more levels. Both kernels give the same slots for the same points.

    Args:
        capacity: C.
        kernels: `numba` (compiled on first use), `numpy`, or `auto`: numba if it is installed.

    Attributes:
        masses: float64 [C]; read it, and write by `set`, `update` and `fill`.
        kernels: The compiled loops (`priority_kernels`); None: NumPy is used.

    Raises:
        UsageError: numba is asked for and not installed.
    """

    def __init__(self, capacity: int, kernels: Kernels = "auto") -> None:
        sizes = [max(4, -(-capacity // 4) * 4)]
        while sizes[-1] > _TOP:
            sizes.append(-(-(sizes[-1] // 4) // 4) * 4)
        self._starts = np.cumsum([0, *sizes])
        self._sums = np.zeros(self._starts[-1])
        self._minima = np.full(self._starts[-1] - sizes[0], np.inf)
        self._levels = np.split(self._sums, self._starts[1:-1])
        self._lowest = np.split(self._minima, self._starts[2:-1] - sizes[0])
        self.masses: FloatArray = self._sums[:capacity]
        self.kernels: Any = None
        if kernels == "numba" and find_spec("numba") is None:
            raise UsageError(
                "kernels=numba: numba is not installed",
                hint='pip install "dicore-plugins[fast]", or kernels=numpy, which gives the same',
            )
        if kernels == "numba":
            self.kernels = import_module(_COMPILED)
        elif kernels == "auto" and find_spec("numba") is not None:
            self.kernels = _compiled_or_none()

    @property
    def total(self) -> float:
        """Sum of all masses."""
        return float(np.cumsum(self._levels[-1])[-1])

    @property
    def minimum(self) -> float:
        """Smallest mass above 0; inf if there is none."""
        found = self._lowest[-1] if len(self._levels) > 1 else _positive(self._levels[0])
        return float(found.min())

    def set(self, slots: IntArray, masses: FloatArray) -> None:
        """Sets the masses of slots; of a slot that occurs twice, to the last one.

        Args:
            slots: int64 [B].
            masses: float64 [B], finite and >= 0; a slot of mass 0 is never found.
        """
        if self.kernels is not None:
            self.kernels.set_masses(self._sums, self._minima, self._starts, slots, masses)
            return
        self._levels[0][slots] = masses
        nodes = slots
        for level in range(1, len(self._levels)):
            nodes = nodes >> 2
            self._sum_up(level, nodes)

    def update(
        self, slots: IntArray, masses: FloatArray, values: FloatArray, by_slot: FloatArray
    ) -> tuple[float, int]:
        """Sets the masses of slots that have one, and writes `values` of these to `by_slot`.

        Args:
            slots: int64 [B]; those below 0 are skipped, as those of mass 0 are.
            masses: float64 [B], finite and > 0.
            values: float64 [B].
            by_slot: float64 [C].

        Returns:
            The largest value that was written, or 0, and how many slots were skipped.
        """
        if self.kernels is not None:
            tree = self._sums, self._minima, self._starts
            found: tuple[float, int] = self.kernels.update(*tree, slots, masses, values, by_slot)
            return found
        stored = (slots >= 0) & (self.masses[slots] > 0)
        if not stored.all():
            slots, masses, values = slots[stored], masses[stored], values[stored]
        if not len(slots):
            return 0.0, len(stored)
        by_slot[slots] = values
        self.set(slots, masses)
        return float(values.max()), len(stored) - len(slots)

    def fill(self, start: int, stop: int, masses: float | FloatArray) -> None:
        """Sets the masses of the slots from `start` to `stop` - 1: one, or float64 [B]."""
        if self.kernels is not None:
            given = np.empty(stop - start)
            given[:] = masses
            self.kernels.fill(self._sums, self._minima, self._starts, start, given)
            return
        self._levels[0][start:stop] = masses
        for level in range(1, len(self._levels)):
            start, stop = start >> 2, -(-stop // 4)
            self._sum_up(level, slice(start, stop))

    def _sum_up(self, level: int, nodes: Any) -> None:
        """Computes nodes from their children."""
        group = _children(self._levels[level - 1], nodes)
        first, second, third, fourth = group.T
        self._levels[level][nodes] = first + second + third + fourth
        low = _positive(group) if level == 1 else _children(self._lowest[level - 2], nodes)
        first, second, third, fourth = low.T
        lowest = np.minimum(np.minimum(first, second), np.minimum(third, fourth))
        self._lowest[level - 1][nodes] = lowest

    def find(self, points: FloatArray, *, shares: bool = False) -> IntArray:
        """Returns the slots at points of the total mass.

        Args:
            points: float64 [B], from 0 to `total`; best in rising order.
            shares: They are shares of `total`, from 0 to 1.

        Returns:
            int64 [B], slots whose mass is not 0 if there is any.
        """
        if self.kernels is not None:
            nodes = np.empty(len(points), np.int64)
            self.kernels.find(self._sums, self._starts, points, shares, nodes)
            return nodes
        sums = self._levels[-1]
        running = np.zeros(len(sums) + 1)
        ends = np.cumsum(sums, out=running[1:])
        points = points * ends[-1] if shares else points
        nodes = np.searchsorted(ends, points, side="right")
        nodes = np.minimum(nodes, np.searchsorted(ends, ends[-1]))
        left = points - running[nodes]
        for sums in reversed(self._levels[:-1]):
            first, second, third, fourth = _children(sums, nodes).T
            second = first + second
            third = second + third
            left = np.minimum(left, (third + fourth) * _BELOW)
            after_1, after_2, after_3 = left >= first, left >= second, left >= third
            before = np.where(
                after_3, third, np.where(after_2, second, np.where(after_1, first, 0.0))
            )
            left -= before
            nodes = nodes * 4 + after_1 + after_2 + after_3
        found: IntArray = nodes
        return found

    def at(self, shares: FloatArray, chosen: IntArray | None = None) -> IntArray:
        """Returns the slots at shares of the sum of masses: of all slots, or of the chosen ones.

        Args:
            shares: float64 [B], from 0 to 1.
            chosen: int64 [n], one of which at least has a mass; None: all.
        """
        if chosen is None:
            return self.find(shares, shares=True)
        masses = self.masses[chosen]
        sums = np.cumsum(masses)
        rows = np.searchsorted(sums, shares * sums[-1], side="right")
        found: IntArray = chosen[np.minimum(rows, np.flatnonzero(masses)[-1])]
        return found

    def weights(self, slots: IntArray, beta: float) -> FloatArray:
        """Returns importance-sampling weights, divided by the largest possible one: [B]."""
        found: FloatArray = (self.minimum / self.masses[slots]) ** beta
        return found

    def clear(self) -> None:
        """Sets all masses to 0."""
        self._sums.fill(0.0)
        self._minima.fill(np.inf)

    def check_valid(self) -> tuple[bool, str]:
        """Returns whether each node is the sum and the minimum of its children, or where not."""
        return verdict(self._facts())

    def _facts(self) -> Iterator[Fact]:
        yield (self.masses >= 0).all() and np.isfinite(self.masses).all(), "a mass is not valid"
        low = _positive(self._levels[0])
        for level in range(1, len(self._levels)):
            group, above = self._levels[level - 1].reshape(-1, 4), self._levels[level]
            sums = group[:, 0] + group[:, 1] + group[:, 2] + group[:, 3]
            wrong = np.flatnonzero(above[: len(sums)] != sums)
            yield (not len(wrong), f"sum {wrong[:1]} of level {level} is not that of its children")
            yield not above[len(sums) :].any(), f"level {level} has a sum without children"
            lowest, low = low.reshape(-1, 4).min(1), self._lowest[level - 1]
            same = np.array_equal(low[: len(sums)], lowest)
            yield same, f"level {level} has a minimum that none of its children has"


def _children(values: FloatArray, nodes: Any) -> FloatArray:
    """Returns the values of the children of nodes, numbers or a slice: [n, 4]."""
    groups = values.reshape(-1, 4)
    found: FloatArray = groups[nodes] if isinstance(nodes, slice) else groups.take(nodes, 0)
    return found


def _positive(masses: FloatArray) -> FloatArray:
    """Returns masses, inf for those that are 0."""
    found: FloatArray = np.where(masses > 0, masses, np.inf)
    return found


@cache
def _compiled_or_none() -> Any:
    """Returns the compiled loops; None, with one warning, if numba fails."""
    try:
        return import_module(_COMPILED)
    except Exception as error:  # numba does not fit NumPy, or cannot write its cache
        _LOG.warning("priorities by NumPy, numba fails: %s", error)
        return None


def annealed(beta: float, anneal_step: int, draws: int) -> float:
    """Returns the exponent of importance-sampling weights, which rises to 1 in `anneal_step` draws.

    Args:
        beta: Its first value.
        anneal_step: 0: it is constant.
        draws: Draws so far.
    """
    return float(beta + (1 - beta) * min(1.0, draws / anneal_step) if anneal_step else beta)


def strata(rng: np.random.Generator, count: int) -> FloatArray:
    """Returns one random share of each of `count` equal parts of 0 to 1: float64 [count]."""
    points = rng.random(count)
    points += _numbers(count)
    shares: FloatArray = points / count
    return shares


@cache
def _numbers(count: int) -> FloatArray:
    return np.arange(count, dtype=np.float64)


def ids_of(given: Any, name: str | None = None) -> IntArray:
    """Returns ids as int64 [B]: arrays, tensors, or lists in which an id may be `buffer_17`.

    Args:
        given: The ids.
        name: Name of the buffer, which ids that are texts begin with; None: any.

    Raises:
        UsageError: they are not whole numbers, or are those of another buffer.
    """
    if is_tensor(given):
        given = given.detach().cpu().numpy()
    elif not isinstance(given, np.ndarray):
        given = np.array(
            [_id_of(each, name) for each in given] if isinstance(given, Iterable) else given
        )
    if given.size and (given.dtype.kind not in "iu" or not given.ndim):
        raise UsageError(
            f"expected ids as whole numbers [B], got {given.dtype}{[*given.shape]}",
            hint="pass the replay_unique_id of the samples that were drawn",
        )
    ids: IntArray = given.astype(np.int64, copy=False).reshape(-1)
    return ids


def _id_of(given: Any, name: str | None) -> Any:
    head, _, tail = given.rpartition("_") if isinstance(given, str) else ("", "", "")
    if not tail.isdecimal():
        return given
    if name is not None and head not in ("", name):
        raise UsageError(
            f"replay_unique_id '{given}' is of the buffer '{head}'; this one is '{name}'",
            hint="pass each buffer the ids of the samples that were drawn from it",
        )
    return int(tail)


def checked_priorities(given: Any, count: int, kernels: Any = None) -> FloatArray:
    """Returns priorities as float64 [B].

    Args:
        given: An array, a tensor or a list.
        count: B.
        kernels: `PriorityTree.kernels`.

    Raises:
        ReplayPriorityError: one is negative or not finite in float32.
        UsageError: there are not `count`.
    """
    array = given.detach().cpu().double().numpy() if is_tensor(given) else np.asarray(given)
    if array.dtype.kind not in "fiub":
        raise ReplayPriorityError(f"priorities are numbers, got {array.dtype}")
    priority: FloatArray = array.astype(np.float64, copy=False).reshape(-1)
    if len(priority) != count:
        raise UsageError(f"update: {len(priority)} priorities for {count} samples")
    if kernels is not None:
        valid = kernels.are_valid(priority, _MOST)
    else:
        valid = not count or (priority.min() >= 0 and priority.max() <= _MOST)
    if not valid:
        wrong = np.flatnonzero(~((priority >= 0) & (priority <= _MOST)))
        raise ReplayPriorityError(
            f"priority {priority[wrong[0]]} at index {wrong[0]} is negative or not finite"
            f" ({len(wrong)} of {count}); nothing was stored",
            hint="priorities are absolute TD errors; look for a diverging loss",
            context={"index": int(wrong[0]), "value": float(priority[wrong[0]])},
        )
    return priority


def masses_of(priority: Tree, alpha: float) -> Any:
    """Returns priority^alpha; with alpha > 1 between bounds whose sum is finite."""
    if alpha <= 1:
        return priority**alpha
    with np.errstate(over="ignore", under="ignore"):
        return np.clip(np.power(priority, alpha), 1e-280, 1e280)
