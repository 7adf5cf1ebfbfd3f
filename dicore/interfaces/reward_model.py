"""The reward-model role: learns a reward and writes it to copies of batches.

Shapes: B samples, `...` one observation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from dicore.values import State, StateDict
from dicore_registry import Contract, Kind

if TYPE_CHECKING:
    from dicore.data import Batch

KIND = Kind(
    name="reward_model",
    summary="learns the reward of collected samples",
    contract="dicore.interfaces.reward_model:IRewardModel",
    section="policy.reward_model",
    suite="dicore.testing.reward_model:RewardModelContract",
    use="dicore train -e cartpole -p dqn policy.reward_model={name}",
)


@runtime_checkable
class IRewardModel(Contract, Protocol):
    """Learns a reward from samples; its config's `build(ctx)` has the spaces in `ctx`."""

    def estimate(self, data: Batch) -> Batch:
        """Returns the samples with a replaced or increased reward.

        Args:
            data: B samples: obs [B, ...], action, reward, next_obs, done; not modified.

        Returns:
            B samples with a new `reward`, float32 [B]; all other columns are unchanged.
        """

    def train(self) -> None:
        """Trains on the stored samples; does nothing without any."""

    def collect_data(self, data: Batch) -> None:
        """Stores a copy of samples for training."""

    def clear_data(self) -> None:
        """Removes the stored samples, but keeps the trained model."""

    def state_dict(self) -> StateDict:
        """Returns the trained state; stored samples are optional."""

    def load_state_dict(self, state: State) -> None:
        """Restores a state."""


@runtime_checkable
class SupportsExpertData(Protocol):
    """A reward model that compares collected samples to expert samples (GAIL)."""

    def load_expert_data(self, data: Batch) -> None:
        """Stores a copy of expert samples."""
