"""The optimizer role: updates parameters from their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from dicore_registry import Kind

KIND = Kind(
    name="optimizer",
    summary="updates parameters from their gradients",
    contract="dicore.interfaces.optimizer:IOptimizer",
    suite="dicore.testing.role:RoleContract",
)


@runtime_checkable
class IOptimizer(Protocol):
    """The part of `torch.optim.Optimizer` that policies use; built with the part `params`."""

    param_groups: list[dict[str, Any]]
    """The parameters and their options; schedules read and set `lr`."""

    def step(self) -> Any:
        """Updates the parameters."""

    def zero_grad(self) -> None:
        """Clears the gradients."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the accumulated state."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restores a state."""
