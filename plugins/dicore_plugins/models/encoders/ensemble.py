"""Several networks of equal sizes as one: each layer is one batched matrix product.

Shapes: E networks, B rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from dicore_plugins.models.encoders.mlp import (
    ACTIVATIONS,
    ActivationName,
    Array,
    InitialWeights,
    initialise,
)


class EnsembleMLP(nn.Module):
    """E multi-layer perceptrons with their own parameters; see `MLP`.

    Args:
        count: E.
        sizes: Sizes of input, hidden layers and output.
        activation: Activation function of the hidden layers.
        initial_weights: See `MLP`.
        renorm: Normalise the input of each layer by `BatchRenorm`, with this many batches of
            warm-up; None: do not.
    """

    def __init__(
        self,
        count: int,
        sizes: Sequence[int],
        activation: ActivationName = "relu",
        *,
        initial_weights: InitialWeights = "orthogonal",
        renorm: int | None = None,
    ) -> None:
        super().__init__()
        self.count = count
        self._activation = function = ACTIVATIONS[activation]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        # The parameter dicts of the lists, ten times as fast as their items; see `MLP`.
        self._tables = self.weights._parameters, self.biases._parameters  # noqa: SLF001
        self.norms: nn.ModuleList | None = None if renorm is None else nn.ModuleList()
        for index, (fan_in, fan_out) in enumerate(pairwise(sizes)):
            gain = function.gain if index < len(sizes) - 2 else 1.0
            made = [nn.Linear(fan_in, fan_out) for _ in range(count)]
            if initial_weights == "orthogonal":
                for layer in made:
                    initialise(layer, gain)
            self.weights.append(
                nn.Parameter(torch.stack([each.weight.detach().T for each in made]))
            )
            self.biases.append(
                nn.Parameter(torch.stack([each.bias.detach()[None] for each in made]))
            )
            if self.norms is not None and renorm is not None:
                from dicore_plugins.models.encoders.renorm import BatchRenorm

                self.norms.append(BatchRenorm(count, fan_in, renorm))

    def forward(self, x: Tensor, *, frozen: bool = False) -> Tensor:
        """Maps float32 [B, input] to [E, B, output].

        Args:
            x: The rows, the same for all networks.
            frozen: The parameters get no gradient; `x` does.
        """
        activate, norms = self._activation.by_torch, self.norms
        x = x.expand(self.count, -1, -1)
        weights, biases = self._tables
        pairs = zip(weights.values(), biases.values(), strict=True)
        for index, (weight, bias) in enumerate(pairs):
            if index:
                x = activate(x)
            if norms is not None:
                x = norms[index].forward(x, frozen=frozen)
            if frozen:
                x = torch.baddbmm(bias.detach(), x, weight.detach())
            else:
                x = torch.baddbmm(bias, x, weight)
        return x

    def by_numpy(self) -> Callable[[Array], Array] | None:
        """Returns the NumPy forward pass of the first network, in evaluation mode.

        Returns:
            See `MLP.by_numpy`.
        """
        activate, norms = self._activation.by_numpy, self.norms
        if activate is None or any(
            each.dtype != torch.float32 or each.device.type != "cpu" for each in self.parameters()
        ):
            return None
        views = [
            (weight[0].detach().numpy(), bias[0].detach().numpy())
            for weight, bias in zip(self.weights, self.biases, strict=True)
        ]

        def forward(x: Array) -> Array:
            for index, (weight, bias) in enumerate(views):
                if index:
                    activate(x)
                if norms is not None:
                    x = norms[index].by_numpy(x)  # type: ignore[operator]
                x = x.dot(weight)
                x += bias
            return x

        return forward
