"""Prioritized replay as a middleware of deque buffers (Schaul et al. 2016).

Shapes: B items drawn.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dicore.errors import UsageError
from dicore_compat.deque.buffer import DequeBuffer
from dicore_compat.deque.store import BufferedData
from dicore_plugins.buffers.base import check_draw
from dicore_plugins.buffers.memory import check_memory, verdict
from dicore_plugins.buffers.priorities import Priorities
from dicore_plugins.buffers.priority_tree import Kernels, PriorityTree, checked_priorities

if TYPE_CHECKING:
    from dicore.data import State, StateDict, Tree
    from dicore_compat.deque.interface import Chain

__all__ = ["PriorityExperienceReplay"]


_SLOT_BYTES = 64
"""Bytes that are kept of each place for an item."""


@dataclass(frozen=True)
class _Options:
    """Options of `Priorities`."""

    alpha: float
    beta: float
    anneal_step: int
    priority_eps: float = 0.0
    kernels: Kernels = "auto"


class PriorityExperienceReplay:
    """Draws items in proportion to priority^alpha, one from each of B equal parts of the sum.

    The priority of an item is `meta["priority"]`: push adds the highest so far if it is missing,
    and `buffer.update(index, data, meta)` changes it. Drawn items have `meta["priority_IS"]` too,
    the importance-sampling weight divided by the largest possible one.

    Args:
        buffer_: The buffer or view that uses it.
        IS_weight: Compute weights.
        priority_power_factor: Exponent alpha of the priorities.
        IS_weight_power_factor: Initial exponent beta of the weights.
        IS_weight_anneal_train_iter: Beta rises linearly to 1 in this many draws.
    """

    def __init__(
        self,
        buffer_: DequeBuffer,
        IS_weight: bool = True,  # noqa: N803 - the documents' name
        priority_power_factor: float = 0.6,
        IS_weight_power_factor: float = 0.4,  # noqa: N803 - the documents' name
        IS_weight_anneal_train_iter: int = 100_000,  # noqa: N803 - the documents' name
    ) -> None:
        self._buffer = buffer_
        self._weighted = IS_weight
        check_memory(_SLOT_BYTES * buffer_.store.size, buffer_.store.size)
        self._slot_of: dict[str, int] = {}
        self._index_of: list[str] = [""] * (buffer_.store.size + 1)
        self._free = [*range(buffer_.store.size + 1)][::-1]  # one more while the oldest leaves
        options = _Options(
            priority_power_factor, IS_weight_power_factor, IS_weight_anneal_train_iter
        )
        self._priorities = Priorities(buffer_.store.size + 1, options)
        buffer_.store.listen(self._follow)

    @property
    def beta(self) -> float:
        """Exponent of the importance-sampling weights of the next draw."""
        return self._priorities.beta

    @property
    def _tree(self) -> PriorityTree:
        return self._priorities.tree_used()

    def __call__(self, action: str, chain: Chain, *args: Any, **kwargs: Any) -> object:
        """Handles an action; see `Buffer.use`."""
        if action == "push":
            return self._push(chain, *args, **kwargs)
        if action == "update":
            return self._update(chain, *args, **kwargs)
        if action == "sample":
            return self._sample(chain, *args, **kwargs)
        return chain(*args, **kwargs)

    def _push(self, chain: Chain, data: object, meta: Mapping[str, Any] | None = None) -> Any:
        given = {"priority": self._priorities.highest, **(meta or {})}
        given["priority"] = self._checked(given["priority"])
        item = chain(data, given)
        self._priorities.highest = max(self._priorities.highest, given["priority"])
        return item

    def _update(
        self,
        chain: Chain,
        index: str,
        data: object = None,
        meta: Mapping[str, Any] | None = None,
    ) -> object:
        if meta is not None and "priority" in meta:
            meta = {**meta, "priority": self._checked(meta["priority"])}
            self._priorities.highest = max(self._priorities.highest, meta["priority"])
        elif meta is not None and index in self._slot_of:
            meta = {**meta, "priority": self._buffer.get_by_index(index).meta["priority"]}
        return chain(index, data, meta)

    @staticmethod
    def _checked(priority: Tree) -> float:
        return float(checked_priorities([priority], 1)[0])

    def _sample(
        self,
        chain: Chain,
        size: int | None = None,
        indices: Any = None,
        replace: bool = False,
        sample_range: slice | None = None,
        **kwargs: object,
    ) -> Any:
        if isinstance(indices, bool):
            indices, replace = None, indices
        elif indices is not None:
            kwargs["indices"] = indices
        odd = [key for key in ("groupby", "indices", "unroll_len") if kwargs.get(key) is not None]
        if size is None or odd:
            raise UsageError(
                f"priorities choose single items: pass size, without {', '.join(odd) or 'indices'}"
            )
        chosen = self._buffer.store.order()[slice(None) if sample_range is None else sample_range]
        count = len(chosen)
        if size > 0 and kwargs.get("ignore_insufficient") and not (replace and count):
            size = min(size, count)
        else:
            check_draw(size, count, "items", replace=replace)
        scale = self._priorities.scale
        slots = self._drawn(size, None if sample_range is None else chosen)
        weights = self._priorities.weights(self._tree.masses[slots], scale)
        items = chain(indices=[self._index_of[each] for each in slots.tolist()])
        for item, weight in zip(items, weights.tolist(), strict=True):
            if self._weighted:
                item.meta["priority_IS"] = weight
        return items

    def _drawn(self, size: int, chosen: list[str] | None) -> Any:
        """Returns the slots of drawn items, of all or of the chosen ones: int64 [B]."""
        if not size:
            self._priorities.draws += 1
            return np.empty(0, np.int64)
        slots = None if chosen is None else np.array([self._slot_of[each] for each in chosen])
        return self._priorities.draw(self._buffer.rng, size, slots)

    def _follow(self, item: BufferedData, present: bool) -> None:
        """Keeps the tree as the items of the buffer are."""
        if not present:
            slot = self._slot_of.pop(item.index)
            self._free.append(slot)
            self._priorities.remove(np.array([slot]))
            return
        slot = self._slot_of.get(item.index, -1)
        if slot < 0:
            slot = self._slot_of[item.index] = self._free.pop()
            self._index_of[slot] = item.index
        priority = float(item.meta.get("priority", self._priorities.highest))
        self._priorities.add(np.array([slot]), max(priority, 1e-30))

    def state_dict(self) -> StateDict:
        """Returns the highest priority, the number of draws, and where items are in the tree."""
        return {
            "highest": self._priorities.highest,
            "draws": self._priorities.draws,
            "slots": dict(self._slot_of),
            "free": list(self._free),
        }

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned, for the items that the buffer now has."""
        every = self._priorities
        every.highest, every.draws = float(state["highest"]), int(state["draws"])
        slots = {index: int(slot) for index, slot in state["slots"].items()}
        if slots.keys() != self._slot_of.keys() or max(slots.values(), default=0) >= len(
            self._index_of
        ):
            return  # another size: the items are in the tree, at other places
        priority = {index: every.of[slot] for index, slot in self._slot_of.items()}
        self._tree.clear()
        self._slot_of = slots
        places = range(len(self._index_of))  # of another size, other slots are free too
        free = [int(each) for each in state["free"] if int(each) in places]
        self._free = sorted({*places} - {*slots.values(), *free}, reverse=True) + free
        for index, slot in slots.items():
            self._index_of[slot] = index
            every.add(np.array([slot]), priority[index])

    def check_valid(self) -> tuple[bool, str]:
        """Returns whether the items of the buffer, and no others, have a mass, or why not."""
        slots = np.array([*self._slot_of.values()], np.int64)
        items = {self._index_of[slot] for slot in self._slot_of.values()}
        facts = (
            (items == set(self._buffer.store.order()), "the items are not those of the buffer"),
            ((self._tree.masses[slots] > 0).all(), "an item has no mass"),
            self._priorities.check_valid(slots),
        )
        return verdict(facts)
