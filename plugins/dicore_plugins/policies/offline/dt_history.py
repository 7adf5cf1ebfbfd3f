"""The last steps of each environment, as a decision transformer sees them.

Shapes: K environments, L steps; `...` one observation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dicore.data import Tree, tree_map, tree_row, tree_stack

__all__ = ["History"]


class History:
    """Keeps up to L steps of the running episode of each environment.

    Args:
        length: L.
        no_action: Action of a step that is not decided yet: an array, or a number.
    """

    def __init__(self, length: int, no_action: Any) -> None:
        self._length, self._no_action = length, np.asarray(no_action)
        self._of: dict[int, list[dict[str, Any]]] = {}
        self._at: dict[int, tuple[int, float]] = {}

    def reset(self, env_id: Sequence[int] | None = None) -> None:
        """Forgets the steps of environments; None: of all."""
        for each in [*self._at] if env_id is None else env_id:
            self._of.pop(int(each), None)
            self._at.pop(int(each), None)

    def seen(self, env_id: npt.NDArray[np.int64], obs: Tree, wanted: float) -> dict[str, Any]:
        """Adds observations; returns the steps of these environments, the last ones first filled.

        Args:
            env_id: int64 [K].
            obs: [K, ...].
            wanted: Return to go of an episode that begins.

        Returns:
            `obs` [K, L, ...], `action`, `return_to_go` and `timestep` [K, L], padded at the end,
            and `last` int64 [K], the step that each environment is in.
        """
        rows = []
        for row, each in enumerate(np.asarray(env_id).tolist()):
            step, left = self._at.setdefault(each, (0, wanted))
            now = {
                "obs": tree_map(np.array, tree_row(obs, row)), "action": self._no_action,
                "return_to_go": np.float32(left), "timestep": np.int64(step),
            }  # fmt: skip
            self._of[each] = [*self._of.get(each, ())[1 - self._length :], now]
            rows.append(self._of[each])
        last = np.array([len(each) - 1 for each in rows])
        longest = int(last.max()) + 1
        padded = [tree_stack([*each, *each[-1:] * (longest - len(each))]) for each in rows]
        return {**tree_stack(padded), "last": last}

    def acted(self, env_id: npt.NDArray[np.int64], action: Tree) -> None:
        """Notes the actions [K, ...] of the steps that `seen` added."""
        for row, each in enumerate(np.asarray(env_id).tolist()):
            self._of[each][-1]["action"] = np.array(action[row])
            step, left = self._at[each]
            self._at[each] = step + 1, left

    def paid(self, env_id: npt.NDArray[np.int64], reward: Tree) -> None:
        """Subtracts rewards [K] from the returns to go."""
        for row, each in enumerate(np.asarray(env_id).tolist()):
            if each in self._at:
                step, left = self._at[each]
                self._at[each] = step, left - float(np.sum(reward[row]))
