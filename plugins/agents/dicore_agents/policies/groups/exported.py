"""Groups of agents as one torch module, from observations to the actions of all: for export."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from dicore.data import Columns, Tree
from dicore_plugins.export import GreedyModule

__all__ = ["GroupsModule"]


class GroupsModule(GreedyModule):
    """Maps observations of a team to the actions of all agents, each by the module of its group.

    Args:
        cfg: The policy's section.
        parts: The module of each group.
        members: Numbers of the agents of each group.
    """

    def __init__(
        self,
        cfg: Any,
        parts: Mapping[str, GreedyModule],
        members: Mapping[str, tuple[int, ...]],
    ) -> None:
        super().__init__(torch.nn.ModuleDict(parts), cfg)
        self.members = {name: [*members[name]] for name in parts}
        order = [number for name in parts for number in members[name]]
        self.back = [order.index(number) for number in range(len(order))]

    def forward(self, obs: Tree, state: Tensor | None = None) -> Tree:
        """Selects the greedy actions [B, A, ...]; see `GreedyModule.forward`."""
        if self.layout is not None:
            obs = {key: obs[name] for key, name in self.layout.items()}
        found = []
        for name, part in self.model.items():  # type: ignore[operator] # a ModuleDict
            members = self.members[name]
            own = {key: each if key == "state" else each[:, members] for key, each in obs.items()}
            found.append(part(own))
        return torch.cat(found, 1)[:, self.back]

    def outputs(self, obs: Tree, state: Tensor | None = None) -> Columns:
        """Returns nothing: there is no state."""
        return {}
