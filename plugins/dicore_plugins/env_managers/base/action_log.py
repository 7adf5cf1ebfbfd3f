"""The actions of running episodes, by which a deterministic environment can be brought back."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

__all__ = ["Journal"]


class Journal:
    """Keeps the actions of every environment since its reset.

    A step is noted by appending to `steps` and counting it, which costs a hundredth of CartPole's
    own step. Arrays of actions are kept as they are: who changes one later loses the way back, and
    is told when the episode does not repeat itself.

    Args:
        env_num: How many environments there are.
        longest: Steps kept; the actions of a longer episode are lost.

    Attributes:
        steps: For each step the environments and their actions.
        count: Steps ever noted.
    """

    def __init__(self, env_num: int, longest: int = 20_000) -> None:
        self.steps: deque[tuple[Sequence[int], Sequence[Any]]] = deque(maxlen=longest)
        self.count = 0
        self._began = [0] * env_num

    def begin(self, env_id: int) -> None:
        """Forgets what an environment did before this moment."""
        self._began[env_id] = self.count

    def add(self, env_ids: Sequence[int], actions: Sequence[Any]) -> None:
        """Notes one step."""
        self.steps.append((env_ids, actions))
        self.count += 1

    def actions(self, env_id: int) -> Sequence[Any] | None:
        """Returns the actions of an environment's running episode, None where they are lost.

        Arrays and numbers of one form become one array, which is kept and saved as such.
        """
        first = self._began[env_id] - (self.count - len(self.steps))
        if first < 0:
            return None
        steps = islice(self.steps, first, None)
        found = [actions[ids.index(env_id)] for ids, actions in steps if env_id in ids]
        forms = {(each.dtype, each.shape) for each in found if isinstance(each, _ARRAYS)}
        alike = len(forms) == 1 and all(isinstance(each, _ARRAYS) for each in found)
        return np.stack(found) if alike else found


_ARRAYS = (np.ndarray, np.generic)
