"""The optimizer role: changes parameters by their gradients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from dicore_registry import Kind

KIND = Kind(
    name="optimizer",
    summary="changes parameters by their gradients",
    contract="dicore.interfaces.optimizer:IOptimizer",
    suite="dicore.testing.role:RoleContract",
)


@runtime_checkable
class IOptimizer(Protocol):
    """What `torch.optim.Optimizer` is; made with the part `params`, the parameters."""

    param_groups: list[dict[str, Any]]
    """The parameters and what holds for them: `lr` is read and changed by schedules."""

    def step(self) -> Any:
        """Changes the parameters by their gradients."""

    def zero_grad(self) -> None:
        """Forgets the gradients."""

    def state_dict(self) -> dict[str, Any]:
        """Returns what was accumulated."""

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""
