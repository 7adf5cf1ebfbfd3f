"""The dataset role: rows that were collected before, for offline learning.

Shapes: N rows held, B rows taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dicore_registry import Kind

if TYPE_CHECKING:
    from dicore.data import Batch

KIND = Kind(
    name="dataset",
    summary="rows collected before, for offline learning",
    contract="dicore.interfaces.dataset:IDataset",
    suite="dicore.testing.role:RoleContract",
)


@runtime_checkable
class IDataset(Protocol):
    """Rows that were collected before; they do not change."""

    def __len__(self) -> int:
        """Rows held, N."""

    def take(self, index: Any) -> Batch:
        """Returns rows by number.

        Args:
            index: int64 [B], each from 0 to N - 1.

        Returns:
            B rows in the order asked for: obs, action, reward, next_obs, done.
        """
