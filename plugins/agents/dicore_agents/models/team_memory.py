"""What actors and critics of teams remember, each by recurrent layers of its own.

Actor and critic learn from losses that pull the memory in different directions; with layers of
their own both learn better (Ni et al. 2022, arXiv:2110.05038).

Shapes: T steps, B rows, A agents, H units, S numbers of a state, each of one part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from dicore_agents.models.agent_mlp import AgentMLP
from dicore_agents.models.agent_net import AgentNet
from dicore_agents.models.agent_rnn import Remembered

__all__ = ["MemoryActor", "Part", "PartOfMemory", "side_by_side"]

Part = Literal["actor", "critic"]


class MemoryActor(AgentNet):
    """Actors of A agents that act by what they remember.

    Args:
        outputs: Numbers by which an agent acts.
        *shapes: First arguments of `AgentNet`.
        **form: Further arguments of `AgentNet`, with `rnn`.
    """

    def __init__(self, outputs: int, *shapes: Any, **form: Any) -> None:
        super().__init__(*shapes, **form)
        sizes = (*self.below, outputs)
        self.head = AgentMLP(
            sizes, self.networks, form.get("activation", "relu"), initial_weights="uniform"
        )

    def forward(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Maps observations of teams, maybe with `memory`, to float32 [B, A, outputs]."""
        found: Tensor = self.head(self.seen(obs))
        return found


def side_by_side(
    parts: Mapping[Part, AgentNet],
    obs: Mapping[str, Tensor],
    hidden: Tensor | None,
    end: Tensor | None,
    learns: Part | None,
) -> Remembered:
    """Runs the recurrent layers of both parts; see `AgentNet.unrolled`.

    Args:
        parts: The networks.
        obs: Observations of teams, `obs` [T, B, A, ...].
        hidden: float32 [B, A, 2 S]; None: zeros.
        end: bool (or 0/1) [T, B]; None: no episode ends.
        learns: The other part has no graph; None: both have theirs.

    Returns:
        `memory` [T, B, A, 2 H] and states [B, A, 2 S], of one part beside the other.
    """
    states = (None, None) if hidden is None else hidden.chunk(2, -1)
    found = []
    for (name, part), state in zip(parts.items(), states, strict=True):
        with torch.set_grad_enabled(torch.is_grad_enabled() and learns in (name, None)):
            found.append(part.unrolled(obs, state, end))
    return Remembered(*(torch.cat(pair, -1) for pair in zip(*found, strict=True)))


class PartOfMemory:
    """The memory of a network as one part of it learns.

    Args:
        model: A network whose `unrolled` takes `learns`.
        learns: The part.
    """

    def __init__(self, model: Any, learns: Part) -> None:
        self._model, self._learns = model, learns

    def unrolled(self, obs: Any, hidden: Tensor | None, end: Tensor | None) -> Remembered:
        """Runs sequences; see `side_by_side`."""
        found: Remembered = self._model.unrolled(obs, hidden, end, self._learns)
        return found

    def remember(self, obs: Any, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Runs one step; see `AgentNet.remember`."""
        found: tuple[Tensor, Tensor] = self._model.remember(obs, hidden)
        return found
