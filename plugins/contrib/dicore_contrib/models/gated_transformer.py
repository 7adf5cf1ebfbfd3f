"""GTrXL: a transformer that is stable in reinforcement learning (Parisotto et al. 2019).

Each layer reads its own inputs of the last M steps of the episode (arXiv:1910.06764, with the
relative positions of Transformer-XL, arXiv:1901.02860):

    y = x gated with relu(attention(norm([memory, x])))
    z = y gated with relu(mlp(norm(y)))

where the gate is that of a GRU, with a bias that lets x pass at first. It takes the place of a
recurrent layer: its state is the memory of all layers as one vector, so that it acts step by step,
and learns from sequences in one pass.

Shapes: T steps, B observations, F features, D units, L layers, H heads, M steps of memory, S
elements of a state, E ends of episodes.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as f

from dicore_plugins.models import Unrolled

__all__ = ["GRUGate", "GatedTransformer"]


class GRUGate(nn.Module):
    """Joins the input of a layer with its output, as a GRU does.

    Args:
        width: D.
        bias: Bias towards the input; above 0 a layer begins near to the identity.
    """

    def __init__(self, width: int, bias: float) -> None:
        super().__init__()
        self.of_output = nn.Linear(width, 3 * width, bias=False)
        self.of_input = nn.Linear(width, 2 * width, bias=False)
        self.of_reset = nn.Linear(width, width, bias=False)
        self.bias = nn.Parameter(torch.full((width,), bias))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Returns x [..., D] where y is not let through, else a mixture with y [..., D]."""
        reset, update, new = self.of_output(y).chunk(3, -1)
        x_reset, x_update = self.of_input(x).chunk(2, -1)
        gate = torch.sigmoid(update + x_update - self.bias)
        candidate = torch.tanh(new + self.of_reset(torch.sigmoid(reset + x_reset) * x))
        return torch.lerp(x, candidate, gate)


class _Layer(nn.Module):
    """Attention to the last steps, and an MLP, each behind a gate."""

    def __init__(self, width: int, heads: int, bias: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key_value = nn.Linear(width, 2 * width, bias=False)
        self.position = nn.Linear(width, width, bias=False)
        self.by_content = nn.Parameter(torch.zeros(heads, width // heads))
        self.by_position = nn.Parameter(torch.zeros(heads, width // heads))
        self.out = nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )
        self.gate, self.mlp_gate = GRUGate(width, bias), GRUGate(width, bias)

    def forward(self, x: Tensor, memory: Tensor, unseen: Tensor, positions: Tensor) -> Tensor:
        """Runs T steps.

        Args:
            x: [T, B, D].
            memory: [M, B, D]; inputs of the steps before.
            unseen: bool [B, T, M + T]; steps that a step does not attend to.
            positions: [M + 1, D]; encodings of the distances 0 to M.
        """
        y = f.relu(self._attention(x, memory, unseen, positions))
        x = self.gate(x, y)
        gated: Tensor = self.mlp_gate(x, f.relu(self.mlp(self.mlp_norm(x))))
        return gated

    def _attention(self, x: Tensor, memory: Tensor, unseen: Tensor, positions: Tensor) -> Tensor:
        steps, kept = len(x), len(memory)
        normed = self.norm(torch.cat([memory, x]))
        form = (self.heads, -1)
        query = self.query(normed[kept:]).unflatten(-1, form)
        key, value = (each.unflatten(-1, form) for each in self.key_value(normed).chunk(2, -1))
        position = self.position(positions).unflatten(-1, form)
        content = torch.einsum("tbhd,sbhd->bhts", query + self.by_content, key)
        far = torch.einsum("tbhd,nhd->bhtn", query + self.by_position, position)
        now = torch.arange(kept, kept + steps, device=x.device)
        distance = (now.unsqueeze(1) - torch.arange(kept + steps, device=x.device)).clamp(0, kept)
        scores = content + far.gather(-1, distance.expand(*far.shape[:2], -1, -1))
        scores = scores / math.sqrt(query.shape[-1])
        weights = scores.masked_fill(unseen.unsqueeze(1), -torch.inf).softmax(-1)
        mixed: Tensor = self.out(torch.einsum("bhts,sbhd->tbhd", weights, value).flatten(-2))
        return mixed


class GatedTransformer(nn.Module):
    """Layers of GTrXL in place of a recurrent layer; see `Recurrent`.

    Args:
        features: F.
        hidden: D, a multiple of twice the heads.
        layers: L.
        heads: H.
        memory_len: M, steps before the present one that a layer attends to.
        gate_bias: Bias of the gates towards their input.

    Attributes:
        state_size: S = M * (L * D + 1); the memory, and which steps of it there are.
    """

    encodings: Tensor

    def __init__(
        self,
        features: int,
        hidden: int,
        *,
        layers: int = 1,
        heads: int = 2,
        memory_len: int = 16,
        gate_bias: float = 2.0,
    ) -> None:
        super().__init__()
        self.hidden_size, self.memory_len = hidden, memory_len
        self.state_size = memory_len * (layers * hidden + 1)
        self.embed = nn.Linear(features, hidden)
        self.layers = nn.ModuleList(_Layer(hidden, heads, gate_bias) for _ in range(layers))
        self.register_buffer("encodings", _encodings(memory_len + 1, hidden), persistent=False)

    def forward(self, x: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Runs one step.

        Args:
            x: [B, F].
            state: [B, S]; None: zeros, the first state of an episode.

        Returns:
            The output [B, D] and the next state [B, S].
        """
        found = self.unroll(x.unsqueeze(0), state)
        return found.output.squeeze(0), found.state

    def unroll(self, x: Tensor, state: Tensor | None = None, end: Tensor | None = None) -> Unrolled:
        """Runs sequences, in which nothing of an episode is seen after its end.

        Args:
            x: [T, B, F].
            state: [B, S]; before the first step; None: zeros.
            end: bool (or 0/1) [T, B]; the episode's last step, terminated or truncated.
        """
        steps, count = x.shape[:2]
        kept = self.memory_len
        memory, there = self._of_state(x, state)
        over = torch.zeros(steps, count, dtype=torch.bool, device=x.device)
        over = over if end is None else end.bool()
        episode = self._episodes(there, over)
        unseen = self._unseen(episode, steps)
        inputs = [torch.cat([memory[0], self.embed(x)])]
        for number, layer in enumerate(self.layers):
            past, now = inputs[-1].split([kept, steps])
            output = layer(now, past, unseen, self.encodings)
            above = memory[number + 1] if number + 1 < len(memory) else past[:0]
            inputs.append(torch.cat([above, output]))
        seen = torch.stack(inputs[:-1])
        after = episode[-1] + over[-1]
        time, batch = over.nonzero(as_tuple=True)
        return Unrolled(
            inputs[-1],
            self._state(seen, episode, torch.full_like(after, steps), torch.arange(count), after),
            self._state(seen, episode, time + 1, batch, episode[kept + time, batch]),
        )

    def _of_state(self, x: Tensor, state: Tensor | None) -> tuple[Tensor, Tensor]:
        """Returns the memory of each layer, [L, M, B, D], and which steps of it there are."""
        count, kept = x.shape[1], self.memory_len
        if state is None:
            state = x.new_zeros(count, self.state_size)
        memory, there = state.split([self.state_size - kept, kept], 1)
        memory = memory.reshape(count, len(self.layers), kept, self.hidden_size)
        return memory.permute(1, 2, 0, 3), there.T > 0.5

    @staticmethod
    def _episodes(there: Tensor, over: Tensor) -> Tensor:
        """Numbers the episodes of memory and steps from 0, int64 [M + T, B]; -1: no step."""
        before = over.long().cumsum(0) - over.long()
        return torch.cat([there.long() - 1, before])

    def _unseen(self, episode: Tensor, steps: int) -> Tensor:
        """Returns which steps a step does not attend to, bool [B, T, M + T]."""
        kept, device = self.memory_len, episode.device
        now = torch.arange(kept, kept + steps, device=device).unsqueeze(1)
        then = torch.arange(kept + steps, device=device)
        outside = (then > now) | (then < now - kept)
        by_env = episode.T
        other = by_env[:, kept:].unsqueeze(2) != by_env.unsqueeze(1)
        return other | outside

    def _state(
        self, seen: Tensor, episode: Tensor, start: Tensor, batch: Tensor, wanted: Tensor
    ) -> Tensor:
        """Returns the states [N, S] that hold the M steps from `start` on of an episode.

        Args:
            seen: [L, M + T, B, D]; inputs of the layers.
            episode: int64 [M + T, B].
            start: int64 [N].
            batch: int64 [N].
            wanted: int64 [N]; number of the episode.
        """
        steps = start.unsqueeze(1) + torch.arange(self.memory_len, device=start.device)
        column = batch.to(start.device).unsqueeze(1)
        there = episode[steps, column] == wanted.unsqueeze(1)
        memory = seen[:, steps, column] * there.unsqueeze(-1)
        return torch.cat([memory.transpose(0, 1).flatten(1), there.to(memory.dtype)], 1)


def _encodings(count: int, width: int) -> Tensor:
    """Returns sines and cosines of the distances 0 to `count` - 1, [count, D]."""
    rates = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
    angles = torch.arange(count).unsqueeze(1) * rates
    return torch.cat([angles.sin(), angles.cos()], 1)
