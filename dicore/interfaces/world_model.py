"""The world-model role: learns how the environment answers, and answers in its place.

Shapes: B rows, `...` one observation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dicore_registry import Kind

if TYPE_CHECKING:
    from dicore.data import Batch

KIND = Kind(
    name="world_model",
    summary="learns how the environment answers",
    contract="dicore.interfaces.world_model:IWorldModel",
    suite="dicore.testing.role:RoleContract",
)


@runtime_checkable
class IWorldModel(Protocol):
    """A model of the environment that is learned from its data."""

    def should_train(self, env_step: int) -> bool:
        """Says whether it is time to learn.

        Args:
            env_step: Environment steps made so far.
        """

    def train(self, data: Batch) -> Mapping[str, float]:
        """Learns from rows of the environment; returns what to log.

        Args:
            data: B rows: obs [B, ...], action, reward, next_obs, done; left as it is.
        """

    def step(self, obs: Any, action: Any) -> tuple[Any, Any, Any]:
        """Answers as the environment would.

        Args:
            obs: [B, ...].
            action: One for each.

        Returns:
            next_obs [B, ...], reward float32 [B], done bool [B].
        """

    def state_dict(self) -> dict[str, Any]:
        """Returns what was learned."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
