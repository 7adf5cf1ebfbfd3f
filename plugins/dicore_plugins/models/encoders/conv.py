"""The CNN of Nature DQN (Mnih et al. 2015, doi:10.1038/nature14236, extended table 1).

Shapes: B images, F features, C channels, H x W pixels.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore_plugins.models.encoders.mlp import ACTIVATIONS, initialise


class _Layer(NamedTuple):
    channels: int
    kernel: int
    stride: int


LAYERS = (_Layer(32, 8, 4), _Layer(64, 4, 2), _Layer(64, 3, 1))


def output_size(height: int, width: int) -> int:
    """Returns the number of features F of an image; 0 if it is too small."""
    for layer in LAYERS:
        height = (height - layer.kernel) // layer.stride + 1
        width = (width - layer.kernel) // layer.stride + 1
        if height < 1 or width < 1:
            return 0
    return LAYERS[-1].channels * height * width


class NatureConv(nn.Module):
    """Three convolutions with ReLU; the output is flattened.

    Args:
        channels: C of the images, whose height and width are at least 36.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        fan_in = channels
        self.layers = nn.ModuleList()
        for layer in LAYERS:
            conv = nn.Conv2d(fan_in, layer.channels, layer.kernel, layer.stride)
            initialise(conv, ACTIVATIONS["relu"].gain)
            self.layers.append(conv)
            fan_in = layer.channels

    def forward(self, x: Tensor) -> Tensor:
        """Maps images [B, C, H, W] to features [B, F].

        uint8 images (0 to 255) are scaled to [0, 1]; float images are not scaled.
        """
        if x.dtype == torch.uint8:
            x = x.to(next(self.parameters()).dtype).mul_(1.0 / 255.0)
        for layer in self.layers:
            x = F.relu(layer(x))
        return x.flatten(1)
