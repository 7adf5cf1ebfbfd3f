"""Values of agents, of what they would earn alone and of what working together adds.

    Q_a(o, u) = Q_alone(o', u) + Q_collab(o, u)               (Zhang et al. 2020)

o' is what an agent sees without the numbers that tell of other agents. The collaborative part sees
the others by attention: the agent's own numbers ask, those of each other agent answer.

Shapes: T steps, B rows, A agents, D numbers of an observation, n actions, K others, W numbers that
tell of one, F numbers that sum them up, H units of a recurrent layer, S numbers of its state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dicore_agents.models.agent_q import AgentQ
from dicore_agents.models.agent_rnn import Remembered
from dicore_agents.models.mixers import QMIXMixer, TeamQ

__all__ = ["CollaQNet"]


class CollaQNet(TeamQ):
    """Q networks of two parts each, mixed as by QMIX.

    Args:
        mixing: Keyword arguments of `QMIXMixer`.
        others: First number of what an observation tells of one other agent, and the one after the
            last: K pairs.
        attention_size: F; None: the collaborative part sees all numbers as they are.
        **agents: Arguments of `AgentQ`.
    """

    own: Tensor
    kept: Tensor
    rest: Tensor

    def __init__(
        self,
        mixing: Mapping[str, Any],
        others: Sequence[tuple[int, int]] = (),
        attention_size: int | None = 32,
        **agents: Any,
    ) -> None:
        width = agents.get("obs_shape") or 0
        rest = [[*range(first, after)] for first, after in others]
        told = {each for part in rest for each in part}
        attends = attention_size is not None and bool(rest)
        seen = width - len(told) + (attention_size or 0) if attends else width
        super().__init__(QMIXMixer, mixing, **{**agents, "obs_shape": seen})
        self.alone = AgentQ(**agents)
        own = torch.tensor([number not in told for number in range(width)])
        self.register_buffer("own", own, persistent=False)
        self.register_buffer("kept", own.nonzero().squeeze(1), persistent=False)
        self.register_buffer("rest", torch.tensor(rest if attends else []), persistent=False)
        self.attention: nn.ModuleDict | None = None
        self.summed = size = attention_size or 0
        if attends:
            sizes = {"query": width - len(told), "key": len(rest[0]), "value": len(rest[0])}
            self.attention = nn.ModuleDict(
                {name: nn.Linear(each, size) for name, each in sizes.items()}
            )

    def q(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Computes Q of each agent's actions: float32 [B, A, n]."""
        obs = self._with_memory(obs)
        rows = _rows(obs, 2)
        alone = torch.where(self.own, rows, 0.0)
        found: Tensor = self.alone.q(self._part(obs, alone, 1))
        return found + super().q(self._part(obs, self._attended(rows), 0))

    def collab_alone(self, obs: Mapping[str, Tensor]) -> Tensor:
        """Computes Q_collab where an agent sees no others, which has to be 0: [B, A, n]."""
        obs = self._with_memory(obs)
        alone = torch.where(self.own, _rows(obs, 2), 0.0)
        return super().q(self._part(obs, self._attended(alone), 2))

    @property
    def hidden_shape(self) -> tuple[int, int]:
        """Shape of the recurrent states of what `unrolled` runs, side by side: (A, 3 S)."""
        agents, size = super().hidden_shape
        return agents, 3 * size

    def unrolled(
        self,
        obs: Mapping[str, Tensor],
        hidden: Tensor | None = None,
        end: Tensor | None = None,
    ) -> Remembered:
        """Runs the recurrent layers; see `AgentNet.unrolled`.

        Returns:
            `memory` [T, B, A, 3 H] and states [B, A, 3 S], side by side of the collaborative part,
            of the other one, and of the collaborative part where an agent sees no others.
        """
        states = (None, None, None) if hidden is None else hidden.chunk(3, -1)
        rows = _rows(obs, 3)
        alone = torch.where(self.own, rows, 0.0)
        found = (
            super().unrolled({**obs, "obs": self._attended(rows)}, states[0], end),
            self.alone.unrolled({**obs, "obs": alone}, states[1], end),
            super().unrolled({**obs, "obs": self._attended(alone)}, states[2], end),
        )
        return Remembered(*(torch.cat(each, -1) for each in zip(*found, strict=True)))

    def act_numpy(self) -> None:
        """Returns nothing: there is no NumPy form."""

    def _attended(self, rows: Tensor) -> Tensor:
        """Returns what the collaborative part sees of rows [.., D], which are [.., D - K W + F]."""
        layers = self.attention
        if layers is None:
            return rows
        own, rest = rows[..., self.kept], rows[..., self.rest]
        score = (layers["key"](rest) * layers["query"](own).unsqueeze(-2)).sum(-1, keepdim=True)
        weight = torch.softmax(score / math.sqrt(self.summed), -2)
        return torch.cat([own, (weight * layers["value"](rest)).sum(-2)], -1)

    def _with_memory(self, obs: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Returns observations with the `memory` of first steps, if agents remember."""
        if self.rnn is None or "memory" in obs:
            return obs
        return {**obs, "memory": self.remember(obs)[0]}

    def _part(self, obs: Mapping[str, Tensor], rows: Tensor, place: int) -> dict[str, Tensor]:
        """Returns observations with other rows, and the part of the memory that belongs to them."""
        found = {**obs, "obs": rows}
        if "memory" in obs:
            found["memory"] = obs["memory"][..., place * self.remembers :]
        return found


def _rows(obs: Mapping[str, Tensor], axes: int) -> Tensor:
    """Returns what agents see [.., A, D], zeros where they do not act; `axes` end with agents."""
    rows = obs["obs"].flatten(axes).float()
    return torch.where(obs["alive"].unsqueeze(-1) > 0, rows, 0.0) if "alive" in obs else rows
