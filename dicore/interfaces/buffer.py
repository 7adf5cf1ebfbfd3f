"""The buffer role: experience waits here between acting and learning.

Shapes: N rows pushed, B rows drawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dicore_registry import Kind

if TYPE_CHECKING:
    from dicore.data import Batch, Row

KIND = Kind(
    name="buffer",
    summary="where experience waits between acting and learning",
    contract="dicore.interfaces.buffer:IBuffer",
    section="policy.other.replay_buffer",
    suite="dicore.testing.buffer:BufferContract",
)


@dataclass(frozen=True, slots=True)
class Refused:
    """What a buffer with throughput control answers instead of acting; it is falsy."""

    reason: str

    def __bool__(self) -> bool:
        return False


@runtime_checkable
class IBuffer(Protocol):
    """Keeps rows as columns and hands out batches."""

    @property
    def replay_buffer_size(self) -> int:
        """Most rows kept; pushing beyond it drops the oldest."""

    @property
    def push_count(self) -> int:
        """Rows ever pushed, those dropped since among them."""

    def count(self) -> int:
        """Rows held now."""

    def push(
        self,
        data: Row | Sequence[Mapping[str, Any]] | Batch,
        cur_collector_envstep: int | None = None,
    ) -> range | Refused:
        """Stores a row, a list of rows or a Batch.

        Args:
            data: N rows whose keys, dtypes and shapes are those of the first push.
            cur_collector_envstep: Env steps collected so far, where known.

        Returns:
            The rows' ids, rising and never used twice.

        Raises:
            SchemaError: a column is missing, unknown, or of another dtype or shape.
        """

    def sample(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
        *,
        sample_range: slice | None = None,
        replace: bool = False,
    ) -> list[Row] | Refused:
        """Draws like `sample_batch` and returns rows of their own memory."""

    def sample_batch(
        self,
        batch_size: int,
        cur_learner_iter: int = 0,
        *,
        sample_range: slice | None = None,
        replace: bool = False,
        reuse: bool = False,
    ) -> Batch | Refused:
        """Draws B = `batch_size` rows uniformly, independently of each other.

        Args:
            batch_size: B.
            cur_learner_iter: Updates made so far, for limits on staleness.
            sample_range: Draw from this slice of the rows in order of age (`slice(-100, None)`:
                the newest hundred).
            replace: Allow B to exceed the rows held.
            reuse: Hand out recycled memory: valid until the next but one such call of that size.

        Raises:
            ReplayUnderflowError: B exceeds the rows to draw from and `replace` is not set.
        """

    def update(self, info: Mapping[str, Any]) -> None:
        """Takes what a learner learned about sampled rows (`replay_unique_id`, `priority`)."""

    def clear(self) -> None:
        """Drops all rows; ids go on rising."""

    def state_dict(self) -> dict[str, Any]:
        """Returns rows, cursors and the state of the random stream.

        The rows may be views: who keeps a state beyond the next push copies it.
        """

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned; the stream of samples goes on as it would have."""

    def save_data(self, file: str | Path) -> None:
        """Writes `state_dict` to one file, atomically; no code is ever stored."""

    def load_data(self, file: str | Path) -> None:
        """Reads what `save_data` wrote."""


@runtime_checkable
class SupportsSampleBatches(Protocol):
    """A buffer that draws several batches at once, cheaper than one after the other."""

    def sample_batches(
        self, count: int, batch_size: int, cur_learner_iter: int = 0
    ) -> Iterator[Batch]:
        """Yields the batches that `count` calls of `sample_batch(…, reuse=True)` would draw.

        Raises:
            ReplayUnderflowError: as `sample_batch`.
        """
