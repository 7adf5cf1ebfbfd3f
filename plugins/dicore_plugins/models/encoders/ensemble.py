"""Several networks of equal sizes as one: each layer is one batched matrix product.

Shapes: E networks, B rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore_plugins.models.encoders.mlp import (
    ACTIVATIONS,
    SLOPES,
    ActivationName,
    Array,
    InitialWeights,
    Pull,
    applies,
    has_gradient,
    initialise,
    on_cpu,
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
        layer_norm: Normalise each row before the activation function; see `MLP`.
        dropout: Probability of a zero before that, in training mode (Hiraoka et al. 2022,
            arXiv:2110.02034); drawn from torch's global generator.
    """

    def __init__(
        self,
        count: int,
        sizes: Sequence[int],
        activation: ActivationName = "relu",
        *,
        initial_weights: InitialWeights = "orthogonal",
        renorm: int | None = None,
        layer_norm: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.layer_norm, self.dropout = layer_norm, dropout
        self.count, self.activation = count, activation
        self._activation = function = ACTIVATIONS[activation]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        # The parameter dicts of the lists, ten times as fast as their items; see `MLP`.
        parts = self.weights, self.biases
        self._tables: Any = tuple(each._parameters for each in parts)  # noqa: SLF001
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
                if self.dropout and self.training:
                    x = F.dropout(x, self.dropout)
                x = activate(F.layer_norm(x, x.shape[-1:]) if self.layer_norm else x)
            if norms is not None:
                x = norms[index].forward(x, frozen=frozen)
            if frozen:
                x = torch.baddbmm(bias.detach(), x, weight.detach())
            else:
                x = torch.baddbmm(bias, x, weight)
        return x

    def differentiable(self) -> bool:
        """Returns whether `forward_and_pull` is possible."""
        return (
            applies(type(self), "forward_and_pull", "forward")
            and self.norms is None
            and not (self.layer_norm or self.dropout)
            and self.activation in SLOPES
            and all(map(has_gradient, self.parameters()))
        )

    @torch.no_grad()
    def forward_and_pull(self, x: Tensor) -> tuple[Tensor, Pull]:
        """Computes `forward` without a graph, and returns how gradients flow back.

        Args:
            x: As for `forward`.

        Returns:
            float32 [E, B, output], and a function of the gradient of the output and two switches:
            `wanted` returns the gradient of `x`, else None; `frozen` leaves `grad` of the
            parameters as it is, else it is overwritten.
        """
        by_numpy, slope = ACTIVATIONS[self.activation].by_numpy, SLOPES[self.activation]
        assert by_numpy is not None, "those that have a slope are known to NumPy"
        pairs = list(zip(*(each.values() for each in self._tables), strict=True))
        shared = x.dim() == 2
        kept = [x.expand(self.count, -1, -1)]
        for index, (weight, bias) in enumerate(pairs):
            if index:
                by_numpy(kept[-1].numpy())
            kept.append(torch.baddbmm(bias, kept[-1], weight))

        def pull(grad: Tensor, wanted: bool = False, frozen: bool = False) -> Tensor | None:
            with torch.no_grad():
                for index in range(len(pairs) - 1, -1, -1):
                    weight, bias = pairs[index]
                    if index + 1 < len(pairs):
                        grad = slope(grad, kept[index + 1])
                    if not frozen:
                        torch.sum(grad, 1, keepdim=True, out=bias.grad)
                        torch.bmm(kept[index].transpose(1, 2), grad, out=weight.grad)
                    if index or wanted:
                        grad = grad.bmm(weight.transpose(1, 2))
                return None if not wanted else grad.sum(0) if shared else grad

        return kept[-1], pull

    def by_numpy(self) -> Callable[[Array], Array] | None:
        """Returns the NumPy forward pass of the first network, in evaluation mode.

        Returns:
            See `MLP.by_numpy`.
        """
        activate, norms = self._activation.by_numpy, self.norms
        same = applies(type(self), "by_numpy", "forward") and not self.layer_norm
        if activate is None or not same or not on_cpu(self):
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


class ResidualMLP(EnsembleMLP):
    """E residual networks with normalised layers: SimBa (Lee et al. 2025, arXiv:2410.09754).

    h_0 = W_i x + b_i;  h_l = h_(l-1) + W_2 relu(W_1 LN(h_(l-1)) + b_1) + b_2;  y = W_o LN(h) + b_o.

    W_1 has four times as many units as h; LN has a learned scale and shift. What is linear in x
    passes all blocks, so that larger networks begin as simple ones.

    Args:
        count: E.
        sizes: Input, units of h for each block (all equal), output.
        activation: Activation function of the blocks.
    """

    def __init__(
        self, count: int, sizes: Sequence[int], activation: ActivationName = "relu"
    ) -> None:
        inputs, *blocks, outputs = sizes
        inner = [units for width in blocks for units in (4 * width, width)]
        super().__init__(count, (inputs, blocks[0], *inner, outputs), activation)
        norms = range(len(blocks) + 1)
        self.scales = nn.ParameterList(torch.ones(count, 1, blocks[0]) for _ in norms)
        self.shifts = nn.ParameterList(torch.zeros(count, 1, blocks[0]) for _ in norms)

    def forward(self, x: Tensor, *, frozen: bool = False) -> Tensor:
        """Maps float32 [B, input] to [E, B, output]; see `EnsembleMLP.forward`."""
        groups = self.weights, self.biases, self.scales, self.shifts
        w, b, scale, shift = ([p.detach() if frozen else p for p in group] for group in groups)
        x = torch.baddbmm(b[0], x.expand(self.count, -1, -1), w[0])
        last = len(scale) - 1
        for i in range(last):
            y = torch.addcmul(shift[i], F.layer_norm(x, x.shape[-1:]), scale[i])
            y = self._activation.by_torch(torch.baddbmm(b[2 * i + 1], y, w[2 * i + 1]))
            x = torch.baddbmm(x + b[2 * i + 2], y, w[2 * i + 2])
        y = torch.addcmul(shift[last], F.layer_norm(x, x.shape[-1:]), scale[last])
        return torch.baddbmm(b[-1], y, w[-1])
