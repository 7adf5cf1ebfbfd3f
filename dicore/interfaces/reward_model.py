"""The reward-model role: estimates or changes the reward of a batch, on a copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dicore_registry.kind import Kind

if TYPE_CHECKING:
    from dicore.data import Batch

KIND = Kind(
    name="reward_model",
    summary="estimates the reward of collected data",
    contract="dicore.interfaces.reward_model:IRewardModel",
    section="policy.reward_model",
)


@runtime_checkable
class IRewardModel(Protocol):
    """Learns a reward from data and writes it on a copy of what it is given."""

    def estimate(self, data: Batch) -> Batch:
        """Returns the rows with their reward replaced or added to; the input stays as it was."""

    def train(self) -> None:
        """Fits the model to the data collected so far."""

    def collect_data(self, data: Batch) -> None:
        """Takes rows to learn from."""

    def clear_data(self) -> None:
        """Forgets the rows taken."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...
