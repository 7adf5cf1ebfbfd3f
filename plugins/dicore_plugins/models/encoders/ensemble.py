"""Several networks of equal sizes as one: each layer is one batched matrix product.

Shapes: E networks, B rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from dicore_plugins.models.encoders.mlp import ACTIVATIONS, ActivationName, initialise


class EnsembleMLP(nn.Module):
    """E multi-layer perceptrons with their own parameters; see `MLP`.

    Args:
        count: E.
        sizes: Sizes of input, hidden layers and output.
        activation: Activation function of the hidden layers.
    """

    def __init__(
        self, count: int, sizes: Sequence[int], activation: ActivationName = "relu"
    ) -> None:
        super().__init__()
        function = ACTIVATIONS[activation]
        self._activate = function.by_torch
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for index, (fan_in, fan_out) in enumerate(pairwise(sizes)):
            gain = function.gain if index < len(sizes) - 2 else 1.0
            made = []
            for _ in range(count):
                layer = nn.Linear(fan_in, fan_out)
                initialise(layer, gain)
                made.append(layer.weight.detach().T)
            self.weights.append(nn.Parameter(torch.stack(made)))
            self.biases.append(nn.Parameter(torch.zeros(count, 1, fan_out)))

    def forward(self, x: Tensor, *, frozen: bool = False) -> Tensor:
        """Maps float32 [B, input] to [E, B, output].

        Args:
            x: The rows, the same for all networks.
            frozen: The parameters get no gradient; `x` does.
        """
        x = x.expand(len(self.weights[0]), -1, -1)
        for index, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if index:
                x = self._activate(x)
            if frozen:
                x = torch.baddbmm(bias.detach(), x, weight.detach())
            else:
                x = torch.baddbmm(bias, x, weight)
        return x
