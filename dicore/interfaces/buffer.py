"""The buffer role: stores samples between collecting and learning; the dataset role.

Shapes: N samples pushed, B samples drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from dicore.values import Row, State, StateDict, Tree
from dicore_registry import Contract, Kind

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from dicore.data import Batch

KIND = Kind(
    name="buffer",
    summary="stores training samples and returns batches of them (replay buffer)",
    contract="dicore.interfaces.buffer:IBuffer",
    section="policy.other.replay_buffer",
    suite="dicore.testing.buffer:BufferContract",
    use="dicore train -e cartpole -p dqn policy.other.replay_buffer={name}",
)

DATASET_KIND = Kind(
    name="dataset",
    summary="provides recorded samples for offline RL",
    contract="dicore.interfaces.buffer:IDataset",
    section="pipeline.dataset",
    suite="dicore.testing.role:RoleContract",
)


@dataclass(frozen=True, slots=True)
class Refused:
    """Returned by a buffer with throughput control that refuses a call; falsy."""

    reason: str

    def __bool__(self) -> Literal[False]:
        return False


@runtime_checkable
class IBuffer(Contract, Protocol):
    """Stores samples as columns and returns batches.

    A buffer may have `close()`, and `sample_batches(count, batch_size, cur_learner_iter=0)`, which
    yields the batches of `count` calls of `sample_batch(…, reuse=True)` and is faster; and
    `check_valid()`, which returns whether its parts fit each other, and otherwise what is wrong.
    """

    @property
    def replay_buffer_size(self) -> int:
        """Capacity in samples; beyond it, the oldest are overwritten."""

    @property
    def push_count(self) -> int:
        """Number of samples pushed so far, including overwritten ones."""

    def count(self) -> int:
        """Returns the number of stored samples."""

    def push(
        self,
        data: Row | Sequence[Mapping[str, Tree]] | Batch,
        cur_collector_envstep: int | None = None,
    ) -> range | Refused:
        """Stores a sample, a list of samples or a Batch.

        Args:
            data: N samples with the keys, dtypes and shapes of the first push.
            cur_collector_envstep: Env steps collected so far, if known.

        Returns:
            The ids of the samples, which increase and are unique.

        Raises:
            SchemaError: a column is missing, unknown, or of another dtype or shape.
        """

    def sample(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
        sample_range: slice | None = None,
        replace: bool = False,
    ) -> list[Row] | Refused:
        """Samples as `sample_batch` does; returns rows, which are copies."""

    def sample_batch(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
        sample_range: slice | None = None,
        replace: bool = False,
        *,
        reuse: bool = False,
    ) -> Batch | Refused:
        """Draws B = `batch_size` samples uniformly and independently.

        Args:
            batch_size: B.
            cur_learner_iter: Number of updates so far, for limits on staleness.
            sample_range: Draw from this slice of the samples, oldest first (`slice(-100, None)`:
                the newest hundred).
            replace: Allow B to exceed the number of stored samples.
            reuse: Return recycled memory, valid until the thread's second next call with this size.

        Raises:
            ReplayUnderflowError: B exceeds the number of samples, without `replace`.
        """

    def update(self, info: Mapping[str, Tree]) -> None:
        """Updates facts about samples (`priority`) by `replay_unique_id`, after an update."""

    def clear(self) -> None:
        """Removes all samples; ids keep increasing."""

    def state_dict(self) -> StateDict:
        """Returns samples, cursors and the state of the random stream.

        The samples may be views: copy them to keep them beyond the next push.
        """

    def load_state_dict(self, state: State) -> None:
        """Restores a state; the following samples are the same as without the interruption."""

    def save_data(self, file: str | Path) -> None:
        """Writes `state_dict` to one file, atomically and without pickled code."""

    def load_data(self, file: str | Path) -> None:
        """Reads a file of `save_data`."""


@runtime_checkable
class IDataset(Contract, Protocol):
    """Recorded samples, which do not change.

    It may have `take_batches(index, batch_size)`, `fingerprint`, `end` and `blocks()` (episodes).
    """

    def __len__(self) -> int:
        """Number of samples, N."""

    def take(self, index: npt.NDArray[np.int64]) -> Batch:
        """Returns B samples by index, in this order: obs, action, reward, next_obs, done.

        Args:
            index: int64 [B], each from 0 to N - 1.
        """
