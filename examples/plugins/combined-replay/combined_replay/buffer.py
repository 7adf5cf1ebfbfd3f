"""Combined experience replay (Zhang and Sutton 2017, arXiv:1712.01275).

The larger a replay buffer, the longer a new sample waits until it is drawn. Combined replay puts
the newest samples into each batch, which costs nothing and makes the size matter less.

Shapes: B samples drawn.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from combined_replay.config import CombinedConfig
from dicore_plugins.buffers import NaiveReplayBuffer

__all__ = ["CombinedReplayBuffer"]


class CombinedReplayBuffer(NaiveReplayBuffer):
    """Puts the newest samples into each batch, and draws the others uniformly.

    A batch has at most B of them; a `sample_range` is drawn from uniformly.

    Args:
        cfg: Options, as a section, a dict, or None for the defaults.
        **parts: See `NaiveReplayBuffer`.
    """

    config_class = CombinedConfig

    def _draw(self, number: int, batch_size: int, replace: bool) -> NDArray[np.int64]:
        """Returns the slots of `number` samples, for batches of B; the newest come last."""
        slots = super()._draw(number, batch_size, replace)
        newest = self._ring.newest(slice(-min(self._cfg.newest, batch_size), None))
        slots.reshape(-1, batch_size)[:, batch_size - len(newest) :] = newest
        return slots
