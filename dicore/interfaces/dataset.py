"""The dataset role: recorded samples for offline RL.

Shapes: N samples, B samples per batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dicore_registry import Kind

if TYPE_CHECKING:
    from dicore.data import Batch

KIND = Kind(
    name="dataset",
    summary="provides recorded samples for offline RL",
    contract="dicore.interfaces.dataset:IDataset",
    suite="dicore.testing.role:RoleContract",
)


@runtime_checkable
class IDataset(Protocol):
    """Recorded samples, which do not change."""

    def __len__(self) -> int:
        """Number of samples, N."""

    def take(self, index: Any) -> Batch:
        """Returns B samples by index, in this order: obs, action, reward, next_obs, done.

        Args:
            index: int64 [B], each from 0 to N - 1.
        """
