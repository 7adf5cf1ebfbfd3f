"""Noisy networks: linear layers whose weights have learned noise, for exploration.

Shapes: B rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore.values import Tree
from dicore_plugins.models.encoders.mlp import MLP

__all__ = ["NoisyMLP"]

_SIGMA = 0.5


class NoisyMLP(MLP):
    """An MLP with factorised Gaussian noise on all weights (Fortunato et al. 2018).

    y = (W + S_w * e_out e_in^T) x + b + S_b * e_out, where S is learned and begins at
    0.5 / sqrt(inputs) (arXiv:1706.10295, equations 9 to 11). In evaluation mode and in `by_numpy`,
    and after `reset_noise(on=False)`, it is the MLP of its means. The noise is drawn from torch's
    global generator.

    Args:
        sizes: Sizes of input, hidden layers and output.
        **form: Arguments of `MLP`.
    """

    def __init__(self, sizes: Sequence[int], *args: Any, **form: Any) -> None:
        super().__init__(sizes, *args, **form)
        self._noise: list[tuple[Tensor, Tensor] | None] = [None] * len(self.layers)
        for layer in self.layers:
            assert isinstance(layer, nn.Linear)
            start = _SIGMA / layer.in_features**0.5
            layer.weight_sigma = nn.Parameter(torch.full_like(layer.weight, start))
            layer.bias_sigma = nn.Parameter(torch.full_like(layer.bias, start))
        self.reset_noise()

    def reset_noise(self, *, on: bool = True) -> None:
        """Draws new noise, which the following passes share; `on=False` removes it."""
        for index, layer in enumerate(self.layers):
            assert isinstance(layer, nn.Linear)
            self._noise[index] = (
                (_scaled(layer.in_features, layer), _scaled(layer.out_features, layer))
                if on
                else None
            )

    def forward(self, x: Tensor) -> Tensor:
        """Maps float32 [B, input] to [B, output]."""
        rows: Tree = self._rows()
        for (table, _, active, norm), noise in zip(rows, self._noise, strict=True):
            weight, bias = table["weight"], table["bias"]
            if noise is not None and self.training:
                inputs, outputs = noise
                weight = weight + table["weight_sigma"] * torch.outer(outputs, inputs)
                bias = bias + table["bias_sigma"] * outputs
            x = F.linear(x, weight, bias)
            if active:
                if norm:
                    x = F.layer_norm(x, x.shape[-1:])
                x = self._activate(x)
        return x

    by_numpy = MLP.by_numpy


def _scaled(size: int, layer: nn.Linear) -> Tensor:
    """Draws f(e) = sign(e) sqrt(|e|), e normal: float32 [size]."""
    noise = torch.randn(size, device=layer.weight.device, dtype=layer.weight.dtype)
    return noise.sign() * noise.abs().sqrt()
