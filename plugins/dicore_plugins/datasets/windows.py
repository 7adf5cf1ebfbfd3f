"""Sequences of recorded steps, each within one episode.

Shapes: N steps, S sequences, B of them, L steps of a sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from dicore.data.tree import Array

__all__ = ["Windows", "places"]

IntArray = npt.NDArray[np.int64]


class Windows:
    """Where the samples of a data set begin that are sequences of L consecutive steps.

    A sequence begins at the first step of an episode and every `stride` steps after it, as long as
    it has a step that no earlier one has. The last one of an episode may be shorter than L.

    Args:
        episode: int64 [N]; number of the episode of each step, not falling.
        length: L.
        stride: Steps between the starts of two sequences of an episode.

    Attributes:
        starts: int64 [S]; number of the first step.
        lengths: int64 [S]; number of steps, at most L.
    """

    def __init__(self, episode: IntArray, length: int, stride: int) -> None:
        since, left = places(episode)
        begins = (since % stride == 0) & ((since == 0) | (left > length - stride))
        self.starts: IntArray = np.flatnonzero(begins)
        self.lengths: IntArray = np.minimum(left[self.starts], length)
        self.length = length
        self._offsets = np.arange(length)

    def __len__(self) -> int:
        return len(self.starts)

    def steps(self, index: IntArray) -> tuple[IntArray, npt.NDArray[np.bool_]]:
        """Returns the steps of sequences; after its end, a sequence repeats its last step.

        Args:
            index: int64 [B].

        Returns:
            Steps int64 [B, L]; valid bool [B, L], False after the end.
        """
        lengths = self.lengths.take(index)[:, None]
        valid: npt.NDArray[np.bool_] = self._offsets < lengths
        steps = self.starts.take(index)[:, None] + np.minimum(self._offsets, lengths - 1)
        return steps, valid


def places(episode: Array) -> tuple[IntArray, IntArray]:
    """Returns where steps are in their episodes.

    Args:
        episode: int64 [N]; number of the episode of each step, not falling.

    Returns:
        int64 [N]; the number of earlier steps of the episode, from 0, and of this and later steps.
    """
    begins = np.flatnonzero(np.append(True, episode[1:] != episode[:-1])[: len(episode)])
    sizes = np.diff(np.append(begins, len(episode)))
    since = np.arange(len(episode)) - np.repeat(begins, sizes)
    return since, np.repeat(sizes, sizes) - since
