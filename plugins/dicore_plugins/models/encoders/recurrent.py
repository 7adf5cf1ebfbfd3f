"""A recurrent layer whose state is one vector per observation: LSTM or GRU.

Hochreiter and Schmidhuber 1997 (doi:10.1162/neco.1997.9.8.1735), Cho et al. 2014 (arXiv:1406.1078).

Shapes: T steps, B observations, F features, H units, S elements of a state, E ends of episodes.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from dicore.data import Tree, tree_map

RNNName = Literal["lstm", "gru"]


class Unrolled(NamedTuple):
    """Result of `Recurrent.unroll`.

    Args:
        output: [T, B, H].
        state: [B, S]; after the last step; zeros where the last step ends an episode.
        ended: [E, S]; the states after the steps that end an episode, step by step.
    """

    output: Tensor
    state: Tensor
    ended: Tensor


class Recurrent(nn.Module):
    """One recurrent layer. Its state is H numbers (GRU), or 2 H (LSTM: output and cell).

    Weights are orthogonal at first, biases 0, those of the LSTM's forget gate 1 (Jozefowicz et al.
    2015, doi:10.5555/3045118.3045367).

    Args:
        features: F.
        hidden: H.
        kind: `lstm` or `gru`.

    Attributes:
        state_size: S.
    """

    def __init__(self, features: int, hidden: int, kind: RNNName = "lstm") -> None:
        super().__init__()
        self.kind = kind
        self.hidden_size = hidden
        self.state_size = 2 * hidden if kind == "lstm" else hidden
        self.rnn = (nn.LSTM if kind == "lstm" else nn.GRU)(features, hidden)
        with torch.no_grad():
            for name, parameter in self.rnn.named_parameters():
                if parameter.dim() > 1:
                    for gate in parameter.split(hidden):
                        nn.init.orthogonal_(gate)
                else:
                    nn.init.zeros_(parameter)
                    if kind == "lstm" and name.startswith("bias_ih"):
                        parameter[hidden : 2 * hidden] = 1.0

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Runs one step.

        Args:
            x: [B, F].
            state: [B, S]; None: zeros, the first state of an episode.

        Returns:
            The output [B, H] and the next state [B, S].
        """
        output, state = self._run(x.unsqueeze(0), self._first(x, state))
        return output.squeeze(0), state

    def unroll(self, x: Tensor, state: Tensor | None = None, end: Tensor | None = None) -> Unrolled:
        """Runs sequences, in which the state is zero after the end of an episode.

        Args:
            x: [T, B, F].
            state: [B, S]; before the first step; None: zeros.
            end: bool (or 0/1) [T, B]; the episode's last step, terminated or truncated.
        """
        state = self._first(x[0], state)
        if end is None:
            return Unrolled(*self._run(x, state), state[:0])
        over = end.bool()
        cuts = [step + 1 for step in over.any(1).nonzero().flatten().tolist()]
        outputs, ended, start = [], [], 0
        for cut in cuts:
            output, state = self._run(x[start:cut], state)
            outputs.append(output)
            ended.append(state[over[cut - 1]])
            state = state.masked_fill(over[cut - 1].unsqueeze(1), 0.0)
            start = cut
        if start < len(x):
            output, state = self._run(x[start:], state)
            outputs.append(output)
        return Unrolled(torch.cat(outputs), state, torch.cat([*ended, state[:0]]))

    def _first(self, x: Tensor, state: Tensor | None) -> Tensor:
        return x.new_zeros(len(x), self.state_size) if state is None else state

    def _run(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Runs [T, B, F] from states [B, S] without a reset."""
        if self.kind == "gru":
            output, last = self.rnn(x, state.unsqueeze(0))
            return output, last.squeeze(0)
        hidden, cell = (each.contiguous().unsqueeze(0) for each in state.split(self.hidden_size, 1))
        output, (hidden, cell) = self.rnn(x, (hidden, cell))
        return output, torch.cat([hidden.squeeze(0), cell.squeeze(0)], 1)


def flat_time(obs: Tree) -> tuple[Tree, tuple[int, int]]:
    """Flattens the first two axes of observations [T, B, ...]; returns also (T, B)."""
    shapes: list[Any] = []

    def flat(leaf: Tensor) -> Tensor:
        shapes.append(leaf.shape[:2])
        return leaf.flatten(0, 1)

    return tree_map(flat, obs), tuple(shapes[0])
