"""Recurrent layers of several agents, which share their parameters or not.

The state of an agent is zero after the end of an episode, and after a step in which it does not
act, so that agents that come late begin as all do.

Shapes: T steps, B rows, A agents, F features, H units, S numbers of a state, E ends of episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from dicore_plugins.models import Recurrent

__all__ = ["AgentRecurrent", "Remembered"]

RNNName = Literal["lstm", "gru"]


class Remembered(NamedTuple):
    """What agents remember.

    Args:
        memory: float32 [T, B, A, H]; zeros of agents that do not act.
        hidden: float32 [B, A, S]; the state after the last step.
        ended: float32 [E, A, S]; the states after the steps that end an episode, step by step.
    """

    memory: Tensor
    hidden: Tensor
    ended: Tensor


class AgentRecurrent(nn.Module):
    """An LSTM or GRU per network, each for the agents that share it; see `Recurrent`.

    Args:
        features: F.
        hidden: H.
        networks: Number of the network of each agent, from 0 on: [A].
        kind: `lstm` or `gru`.

    Attributes:
        state_size: S.
    """

    def __init__(
        self, features: int, hidden: int, networks: Sequence[int], kind: RNNName = "gru"
    ) -> None:
        super().__init__()
        self.agents, count = len(networks), max(networks) + 1
        layers = [Recurrent(features, hidden, kind) for _ in range(count)]
        self.layers = nn.ModuleList(layers)
        self.state_size = layers[0].state_size
        self.members = [[a for a, each in enumerate(networks) if each == n] for n in range(count)]
        order = [agent for each in self.members for agent in each]
        self.back = [order.index(agent) for agent in range(self.agents)]

    def unroll(
        self,
        x: Tensor,
        hidden: Tensor | None = None,
        end: Tensor | None = None,
        alive: Tensor | None = None,
    ) -> Remembered:
        """Runs sequences.

        Args:
            x: float32 [T, B, A, F].
            hidden: float32 [B, A, S]; before the first step; None: zeros.
            end: bool (or 0/1) [T, B]; the episode's last step; None: none ends.
            alive: [T, B, A]; 1 where agents act; None: everywhere.
        """
        state = x.new_zeros(x.shape[1], self.agents, self.state_size) if hidden is None else hidden
        absent = None if alive is None else alive == 0
        over = None if end is None else end.bool()
        outputs, ended, start = [], [], 0
        for cut in self._cuts(len(x), over, absent):
            output, state = self._run(x[start:cut], state)
            outputs.append(output)
            if absent is not None:
                state = state.masked_fill(absent[cut - 1].unsqueeze(2), 0.0)
            if over is not None:
                ended.append(state[over[cut - 1]])
                state = state.masked_fill(over[cut - 1][:, None, None], 0.0)
            start = cut
        memory = torch.cat(outputs)
        if absent is not None:
            memory = memory.masked_fill(absent.unsqueeze(3), 0.0)
        return Remembered(memory, state, torch.cat([*ended, state[:0]]))

    @staticmethod
    def _cuts(steps: int, over: Tensor | None, absent: Tensor | None) -> list[int]:
        """Returns the steps before which a state becomes zero that is read, and the last one."""
        found = {steps}
        if steps == 1:
            return [1]
        if over is not None:
            found |= {step + 1 for step in over.any(1).nonzero().flatten().tolist()}
        if absent is not None:
            comes = (absent[:-1] & ~absent[1:]).flatten(1).any(1)
            found |= {step + 1 for step in comes.nonzero().flatten().tolist()}
        return sorted(found)

    def _run(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Runs [T, B, A, F] from states [B, A, S] without a reset."""
        rows, outputs, states = x.shape[1], [], []
        for layer, members in zip(self.layers, self.members, strict=True):
            whole = len(members) == self.agents
            part, before = (x, state) if whole else (x[:, :, members], state[:, members])
            found = layer.unroll(part.flatten(1, 2), before.flatten(0, 1))  # type: ignore[operator]
            outputs.append(found.output.unflatten(1, (rows, len(members))))
            states.append(found.state.unflatten(0, (rows, len(members))))
        if len(outputs) == 1:
            return outputs[0], states[0]
        return torch.cat(outputs, 2)[:, :, self.back], torch.cat(states, 1)[:, self.back]
