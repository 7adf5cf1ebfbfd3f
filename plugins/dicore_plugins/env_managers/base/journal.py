"""The actions of running episodes, by which a deterministic environment can be brought back."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np

__all__ = ["Journal"]


class Journal:
    """Keeps the actions of every environment since its reset.

    Args:
        env_num: How many environments there are.
        longest: Steps kept; the actions of a longer episode are lost.
    """

    def __init__(self, env_num: int, longest: int = 20_000) -> None:
        self._steps: deque[tuple[Sequence[int], Any]] = deque(maxlen=longest)
        self._count = 0
        self._began = [0] * env_num

    def begin(self, env_id: int) -> None:
        """Forgets what an environment did before this moment."""
        self._began[env_id] = self._count

    def add(self, env_ids: Sequence[int], actions: Iterable[Any]) -> None:
        """Notes one step."""
        kept = actions.copy() if actions.__class__ is np.ndarray else list(actions)  # type: ignore[attr-defined]
        self._steps.append((env_ids, kept))
        self._count += 1

    def actions(self, env_id: int) -> list[Any] | None:
        """Returns the actions of an environment's running episode, None where they are lost."""
        first = self._began[env_id] - (self._count - len(self._steps))
        if first < 0:
            return None
        steps = islice(self._steps, first, None)
        return [actions[ids.index(env_id)] for ids, actions in steps if env_id in ids]
