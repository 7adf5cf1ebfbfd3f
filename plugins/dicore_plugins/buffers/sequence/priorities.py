"""Priorities of sequences: draws in proportion to them, and importance-sampling weights.

Shapes: N steps, B sequences, L steps of a sequence, C slots of the ring.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dicore_plugins.buffers.priority_tree import (
    FloatArray,
    PriorityTree,
    annealed,
    masses_of,
    strata,
)
from dicore_plugins.buffers.ring import IntArray
from dicore_plugins.buffers.sequence.config import SequenceConfig
from dicore_plugins.buffers.sequence.index import SequenceIndex

if TYPE_CHECKING:
    from dicore.data import State, StateDict


__all__ = ["SequencePriorities"]


class SequencePriorities:
    """Priorities of the sequences that begin in the slots of a ring; equal until some are set.

    Args:
        cfg: Options of the buffer.
        index: Finds the sequences.

    Attributes:
        of: float64 [C]; priority of the sequence that begins in a slot.
    """

    def __init__(self, cfg: SequenceConfig, index: SequenceIndex) -> None:
        self._cfg = cfg
        self._index = index
        self._draws = 0
        self._highest = 1.0
        self.of: FloatArray = np.ones(cfg.replay_buffer_size)
        self.clear()

    def clear(self) -> None:
        """Forgets the priorities of all sequences; new ones get the highest so far."""
        self._tree: PriorityTree | None = None
        self._of_steps: FloatArray | None = None

    @property
    def beta(self) -> float:
        """Exponent of the importance-sampling weights of the next draw."""
        return annealed(self._cfg.beta, self._cfg.anneal_step, self._draws)

    def mixed(self, priority: FloatArray, starts: IntArray) -> FloatArray:
        """Returns eta * max + (1 - eta) * mean of the priorities [B, L] of the steps."""
        lengths = self._index.lengths[starts]
        inside = np.arange(priority.shape[1]) < lengths[:, None]
        counted = np.where(inside, priority, 0.0)
        eta = self._cfg.eta
        mixed: FloatArray = eta * counted.max(1) + (1 - eta) * counted.sum(1) / lengths
        return mixed

    def place(self, gone: IntArray, new: IntArray) -> None:
        """Gives new sequences the highest priority so far, or that of their steps."""
        if self._tree is not None and len(gone):
            self._tree.set(gone, np.zeros(len(gone)))
        if not len(new):
            return
        if self._of_steps is None:
            self._write(new, np.full(len(new), self._highest))
        else:
            self.set(new, self.mixed(self._of_steps[self._index.slots_of(new)], new))

    def set_steps(self, slots: IntArray, priority: FloatArray | None) -> None:
        """Sets the priorities of new steps [n]; None: none are given."""
        if self._of_steps is None:
            if priority is None:
                return
            self._of_steps = np.full(len(self.of), self._highest)
        self._of_steps[slots] = self._highest if priority is None else priority

    def set(self, starts: IntArray, priority: FloatArray) -> None:
        """Sets the priorities of sequences [B]; draws are in proportion to them from now on."""
        if not len(starts):
            return
        priority = priority + self._cfg.priority_eps
        self._highest = max(self._highest, float(priority.max()))
        if self._tree is None and self._cfg.alpha > 0:
            self._make_tree()
        self._write(starts, priority)

    def _make_tree(self) -> None:
        self._tree = PriorityTree(len(self.of), self._cfg.kernels)
        starts = np.sort(self._index.starts)
        self._tree.set(starts, masses_of(self.of[starts], self._cfg.alpha))

    def _write(self, starts: IntArray, priority: FloatArray) -> None:
        self.of[starts] = priority
        if self._tree is not None:
            self._tree.set(starts, masses_of(priority, self._cfg.alpha))

    def draw(self, rng: np.random.Generator, count: int, chosen: IntArray | None) -> IntArray:
        """Draws sequences, from all or from the chosen ones.

        Returns:
            The slots of their first steps: int64 [B].
        """
        self._draws += 1
        if self._tree is None:
            if chosen is None:
                return self._index.chosen(rng.integers(0, self._index.count, count))
            return chosen[rng.integers(0, len(chosen), count)]
        return self._tree.at(strata(rng, count), chosen)

    def weights(self, starts: IntArray) -> Any:
        """Returns the importance-sampling weights, divided by the largest possible one: [B]."""
        if self._tree is None:
            return 1.0
        return self._tree.weights(starts, self.beta)

    def state_dict(self, held: int) -> StateDict:
        """Returns the priorities of the sequences and steps of the first `held` slots."""
        of_steps = {} if self._of_steps is None else {"of_steps": self._of_steps[:held]}
        return {
            "of": self.of[:held],
            "highest": self._highest,
            "draws": self._draws,
            "in_use": self._tree is not None,
            **of_steps,
        }

    def load_state_dict(self, state: State, shift: int) -> None:
        """Restores what `state_dict` returned; `shift` as for `SequenceIndex`."""
        self.clear()
        held = len(state["of"])
        self.of[:held] = np.roll(np.asarray(state["of"]), -shift)
        self._highest, self._draws = float(state["highest"]), int(state["draws"])
        if "of_steps" in state:
            self._of_steps = np.full(len(self.of), self._highest)
            self._of_steps[:held] = np.roll(np.asarray(state["of_steps"]), -shift)
        if state["in_use"] and self._cfg.alpha > 0:
            self._make_tree()

    def check_valid(self) -> None:
        """Raises AssertionError if tree and sequences disagree; for tests."""
        if self._tree is None:
            return
        self._tree.check_valid()
        starts = self._index.starts
        masses = np.zeros(len(self.of))
        masses[starts] = masses_of(self.of[starts], self._cfg.alpha)
        assert np.array_equal(self._tree.masses, masses)
