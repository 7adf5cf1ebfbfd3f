"""Priorities as they come to a buffer, and the facts about drawn samples, by NumPy.

Shapes: B samples.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.data.tree import is_tensor
from dicore.errors import SchemaError, UsageError
from dicore_plugins.buffers.base import as_array
from dicore_plugins.buffers.priority_tree import FloatArray
from dicore_plugins.buffers.ring import IntArray

if TYPE_CHECKING:
    from dicore.data import Tree


__all__ = ["Late", "by_slot", "check_state", "checked_stamps", "facts", "is_far", "slots_of"]

_LATEST = 2**31 - 1
"""Largest `collect_iter`."""


def by_slot(capacity: int) -> tuple[FloatArray, Any, Any]:
    """Returns float64, int32 and int32 [C]: priority, use and `collect_iter` by slot.

    Those of a slot are next to each other in memory: a draw of a few of many samples then reads one
    cache line for each instead of three.
    """
    names = ("priority", "use", "collect_iter")
    table = np.zeros(capacity, [*zip(names, (np.float64, np.int32, np.int32), strict=True)])
    table["use"] = table["collect_iter"] = -1
    return table["priority"], table["use"], table["collect_iter"]


def check_state(held: int, priority: FloatArray, mass: FloatArray, stamps: IntArray) -> None:
    """Raises SchemaError if there is not a valid value for each of `held` samples."""
    for name, values in (("priority", priority), ("mass", mass), ("collect_iter", stamps)):
        if values.shape != (held,):
            raise SchemaError(f"the state has {values.size} values of '{name}' for {held} samples")
        if values is stamps and held:
            checked_stamps(stamps, held)
        elif not (np.isfinite(values) & (values >= 0)).all():
            raise SchemaError(f"the state has values of '{name}' that are negative or not finite")


def checked_stamps(given: Any, count: int) -> IntArray:
    """Returns the column `collect_iter` as int64 [N].

    Raises:
        SchemaError: there is not one whole number for each of the `count` samples.
    """
    stamps, found = as_array(given), ""
    if stamps.size == count and stamps.dtype.kind in "iuf":
        small = stamps.min() >= -_LATEST and stamps.max() <= _LATEST  # not if one is NaN
        if small and (stamps.dtype.kind != "f" or (stamps == np.floor(stamps)).all()):
            return stamps.astype(np.int64, copy=False).reshape(count)
        found = f" from {stamps.min()} to {stamps.max()}"
    raise SchemaError(
        f"collect_iter: expected whole numbers [{count}] up to {_LATEST}, got"
        f" {stamps.dtype}{[*stamps.shape]}{found}",
        hint="push the number of updates at which each sample was collected",
    )


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
