"""The world-model role: learned dynamics for simulated rollouts.

Shapes: B samples, `...` one observation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from dicore.values import State, StateDict, Tree
from dicore_registry import Contract, Kind

if TYPE_CHECKING:
    from dicore.data import Batch

KIND = Kind(
    name="world_model",
    summary="learns the dynamics of the environment for simulated rollouts",
    contract="dicore.interfaces.world_model:IWorldModel",
    suite="dicore.testing.role:RoleContract",
)


@runtime_checkable
class IWorldModel(Contract, Protocol):
    """A learned model of the environment."""

    def should_train(self, env_step: int) -> bool:
        """Returns whether training is due after `env_step` env steps."""

    def train(self, data: Batch) -> Mapping[str, float]:
        """Trains on samples of the environment; returns metrics.

        Args:
            data: B samples: obs [B, ...], action, reward, next_obs, done; not modified.
        """

    def step(self, obs: Tree, action: Tree) -> tuple[Tree, Tree, Tree]:
        """Predicts next_obs [B, ...], reward float32 [B] and done bool [B]."""

    def state_dict(self) -> StateDict:
        """Returns the trained state."""

    def load_state_dict(self, state: State) -> None:
        """Restores a state."""
