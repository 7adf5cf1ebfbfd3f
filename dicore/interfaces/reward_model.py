"""The reward-model role: estimates or changes the reward of a batch, on a copy.

Shapes: B rows, `...` one observation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dicore_registry import Kind

if TYPE_CHECKING:
    from dicore.data import Batch

KIND = Kind(
    name="reward_model",
    summary="estimates the reward of collected data",
    contract="dicore.interfaces.reward_model:IRewardModel",
    section="policy.reward_model",
    suite="dicore.testing.reward_model:RewardModelContract",
)


@runtime_checkable
class IRewardModel(Protocol):
    """Learns a reward from data and writes it on a copy of what it is given.

    Its config's `build(ctx)` finds the spaces in the context.
    """

    def estimate(self, data: Batch) -> Batch:
        """Returns the same rows with a reward of its own: replaced, or added to.

        Args:
            data: B rows: obs [B, ...], action, reward, next_obs, done; left as it is.

        Returns:
            B rows of memory of their own where they differ; `reward` float32 [B], every other
            column as it was.
        """

    def train(self) -> None:
        """Fits the model to the rows taken so far; without any it does nothing."""

    def collect_data(self, data: Batch) -> None:
        """Takes rows to learn from, and keeps a copy: what is handed in may be recycled memory."""

    def clear_data(self) -> None:
        """Forgets the rows taken; what was learned from them stays."""

    def state_dict(self) -> dict[str, Any]:
        """Returns what was learned; the rows taken need not be among it."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""


@runtime_checkable
class SupportsExpertData(Protocol):
    """A reward model that compares what is collected with what an expert did (GAIL)."""

    def load_expert_data(self, data: Batch) -> None:
        """Takes the expert's rows, and keeps a copy."""
