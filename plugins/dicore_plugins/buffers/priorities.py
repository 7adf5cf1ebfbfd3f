"""Priorities of the slots of a ring: the sampler of all prioritized buffers.

Shapes: B slots, C the capacity.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from dicore.data import Tree
from dicore.data.tree import is_tensor
from dicore.errors import UsageError
from dicore_plugins.buffers.memory import Fact, verdict
from dicore_plugins.buffers.priority_tree import (
    FloatArray,
    Kernels,
    PriorityTree,
    annealed,
    masses_of,
    strata,
)
from dicore_plugins.buffers.ring import IntArray

__all__ = ["Late", "Priorities", "Scale", "by_slot", "facts", "is_far", "slots_of"]

Scale = tuple[float, float]
"""The smallest mass, and beta: what importance-sampling weights are computed with."""


class PriorityOptions(Protocol):
    """Options of a prioritized buffer."""

    @property
    def alpha(self) -> float: ...
    @property
    def beta(self) -> float: ...
    @property
    def anneal_step(self) -> int: ...
    @property
    def priority_eps(self) -> float: ...
    @property
    def kernels(self) -> Kernels: ...


class Priorities:
    """Priorities of C slots, and draws in proportion to priority^alpha.

    A draw takes one slot from each of B equal parts of the sum. New samples get the highest
    priority so far. Schaul et al. 2016, Prioritized Experience Replay.

    Args:
        capacity: C.
        cfg: Options.
        of: float64 [C], memory for the priorities; None: it is made here.
        uniform: All have the same priority, and `tree` is None, until `use_tree`.

    Attributes:
        of: float64 [C]; priority of the sample in a slot, `priority_eps` included.
        tree: Their masses priority^alpha, 0 where there is no sample.
        highest: The highest priority so far.
        draws: Number of draws so far.
    """

    def __init__(
        self,
        capacity: int,
        cfg: PriorityOptions,
        of: FloatArray | None = None,
        *,
        uniform: bool = False,
    ) -> None:
        self._cfg = cfg
        self.of: FloatArray = np.ones(capacity) if of is None else of
        self.tree: PriorityTree | None = None
        self.highest, self.draws = 1.0, 0
        if not uniform:
            self.use_tree(np.empty(0, np.int64))

    def use_tree(self, slots: IntArray) -> PriorityTree:
        """Draws by priority from now on; `slots` int64 [B] are those with a sample."""
        self.tree = PriorityTree(len(self.of), self._cfg.kernels)
        if len(slots):
            self.tree.set(slots, masses_of(self.of[slots], self._cfg.alpha))
        return self.tree

    def tree_used(self) -> PriorityTree:
        """Returns the tree of a sampler whose draws are by priority."""
        assert self.tree is not None, "draws are uniform until `use_tree`"
        return self.tree

    def masses(self, priority: Tree) -> Any:
        """Returns priority^alpha."""
        return masses_of(priority, self._cfg.alpha)

    @property
    def beta(self) -> float:
        """Exponent of the importance-sampling weights of the next draw."""
        return annealed(self._cfg.beta, self._cfg.anneal_step, self.draws)

    @property
    def scale(self) -> Scale:
        """What the weights of the next draw are computed with."""
        cfg, lowest = self._cfg, 1.0 if self.tree is None else self.tree.minimum
        return lowest, annealed(cfg.beta, cfg.anneal_step, self.draws)

    def raised(self, priority: FloatArray) -> FloatArray:
        """Returns priorities, none of which is 0, and notes the highest."""
        priority = priority + self._cfg.priority_eps
        self.highest = max(self.highest, float(priority.max(initial=0.0)))
        return priority

    def add(self, slots: IntArray, priority: FloatArray | float) -> None:
        """Sets the priorities of new samples: float64 [B], or one for all."""
        self.of[slots] = priority
        if self.tree is not None:
            self.tree.set(slots, self.masses(self.of[slots]))

    def set(self, slots: IntArray, priority: FloatArray) -> int:
        """Sets priorities of samples that are there; returns how many are not.

        Args:
            slots: int64 [B]; -1: it is not there.
            priority: float64 [B], >= 0.
        """
        priority = priority + self._cfg.priority_eps
        if self.tree is None:
            self.add(slots, priority)
            highest, skipped = float(priority.max(initial=0.0)), 0
        else:
            masses = masses_of(priority, self._cfg.alpha)
            highest, skipped = self.tree.update(slots, masses, priority, self.of)
        self.highest = max(self.highest, highest)
        return skipped

    def remove(self, slots: IntArray) -> None:
        """Lets samples no longer be drawn."""
        if self.tree is not None and len(slots):
            self.tree.set(slots, np.zeros(len(slots)))

    def draw(self, rng: np.random.Generator, count: int, chosen: IntArray | None) -> IntArray:
        """Draws slots, of all samples or of the chosen ones: int64 [B]."""
        tree = self.tree
        assert tree is not None, "draws are uniform until `use_tree`"
        self.draws += 1
        return tree.at(strata(rng, count), chosen)

    @staticmethod
    def weights(masses: FloatArray, scale: Scale) -> FloatArray:
        """Returns importance-sampling weights, divided by the largest possible one, in place.

        Args:
            masses: float64 [B], of the samples drawn.
            scale: `scale` before the draw.
        """
        lowest, beta = scale
        np.divide(lowest, masses, out=masses)
        return np.power(masses, beta, out=masses)

    def check_valid(self, slots: IntArray) -> tuple[bool, str]:
        """Returns whether masses are those of priorities, in no other than `slots`, or why not."""
        return verdict(self._facts(slots))

    def _facts(self, slots: IntArray) -> Iterator[Fact]:
        of = self.of[slots]
        yield (np.isfinite(of) & (of >= 0)).all(), "a priority is negative or not finite"
        if self.tree is None:
            return
        yield self.tree.check_valid()
        mass = self.tree.masses[slots]
        yield np.count_nonzero(mass) == np.count_nonzero(self.tree.masses), "a mass of no sample"
        right = (mass == 0) | np.isclose(mass, self.masses(of), rtol=1e-6, atol=0)
        wrong = slots[~right][:1]
        yield right.all(), f"the mass in slot {wrong} is not its priority to the power of alpha"


def by_slot(capacity: int) -> tuple[FloatArray, Any, Any]:
    """Returns float64, int32 and int32 [C]: priority, use and `collect_iter` by slot.

    Those of a slot are next to each other in memory: a draw of a few of many samples then reads one
    cache line for each instead of three.
    """
    names = ("priority", "use", "collect_iter")
    table = np.zeros(capacity, [*zip(names, (np.float64, np.int32, np.int32), strict=True)])
    table["use"] = table["collect_iter"] = -1
    return table["priority"], table["use"], table["collect_iter"]


def slots_of(
    ids: IntArray, push_count: int, cursor: int, count: int, capacity: int, kernels: Any = None
) -> IntArray:
    """Returns the slots of samples by id, int64 [B]; -1 for samples that were overwritten.

    Raises:
        UsageError: an id was never pushed.
    """
    if kernels is not None:
        slots = np.empty(len(ids), np.int64)
        newest = kernels.slots_of(ids, push_count, cursor, count, capacity, slots)
    else:
        age = push_count - ids
        slots = (cursor - age) % capacity
        slots[age > count] = -1
        newest = int(ids.max())
    if newest >= push_count:
        raise UsageError(f"replay_unique_id {newest} was never pushed")
    return slots


def facts(  # noqa: PLR0913, PLR0917 - the arguments of the kernel (benchmarks/prioritized.py)
    slots: IntArray, uses: Any, stamps: IntArray, priorities: FloatArray, masses: FloatArray,
    train_iter: int, push_count: int, cursor: int, capacity: int,
    ids: Any, places: Any, use: Any, staleness: Any, priority: Tree, mass: Any,
) -> None:  # fmt: skip
    """Counts a draw and writes the facts about its samples; see `priority_kernels.facts`."""
    if (slots[1:] > slots[:-1]).all():
        uses[slots] += 1
    else:  # ten times as slow
        np.add.at(uses, slots, 1)
    ids[:] = push_count - 1 - (cursor - 1 - slots) % capacity
    places[:] = slots
    use[:] = uses[slots]
    collected = stamps[slots]
    np.subtract(train_iter, collected, out=staleness)
    staleness[collected < 0] = 0
    priority[:] = priorities[slots]
    mass[:] = masses[slots]


def is_far(priority: Tree) -> bool:
    """Returns whether priorities are on another device, from which a copy takes time."""
    return is_tensor(priority) and priority.device.type != "cpu"


class Late:
    """Priorities that a device has yet to compute and copy to the CPU.

    Args:
        key: `replay_unique_id` or `replay_buffer_idx`.
        numbers: int64 [B], what `key` names; copied.
        priority: Tensor [B].
    """

    def __init__(self, key: str, numbers: Any, priority: Tree) -> None:
        import torch

        given = torch.as_tensor(priority).detach()
        cuda = given.device.type == "cuda"
        self._key, self._numbers = key, np.array(numbers)  # its batch is recycled
        wide = torch.promote_types(given.dtype, torch.float32)  # NumPy has no bfloat16
        self._priority = torch.empty(given.shape, dtype=wide, pin_memory=cuda)
        self._priority.copy_(given, non_blocking=cuda)
        self._event: Any = None
        if cuda:
            self._event = torch.cuda.Event()
            self._event.record(torch.cuda.current_stream(given.device))

    def arrived(self) -> tuple[str, IntArray, Any]:
        """Returns key, numbers and priorities [B]; waits if the device is not ready."""
        if self._event is not None:
            self._event.synchronize()
        return self._key, self._numbers, self._priority.numpy()
