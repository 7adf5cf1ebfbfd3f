"""Convolutional networks for images, chosen by name.

Shapes: B images, F features, C channels, H x W pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore_plugins.models.encoders.mlp import ACTIVATIONS, initialise
from dicore_plugins.models.shapes import channels_first

_GAIN = ACTIVATIONS["relu"].gain


class _Layer(NamedTuple):
    channels: int
    kernel: int
    stride: int


LAYERS = (_Layer(32, 8, 4), _Layer(64, 4, 2), _Layer(64, 3, 1))
_SMALL = (_Layer(16, 3, 1),)


def output_size(height: int, width: int) -> int:
    """Returns the number of features F of an image by `NatureConv`; 0 if it is too small."""
    return _flat_size(LAYERS, height, width)


def _flat_size(layers: Sequence[_Layer], height: int, width: int) -> int:
    for layer in layers:
        height = (height - layer.kernel) // layer.stride + 1
        width = (width - layer.kernel) // layer.stride + 1
        if height < 1 or width < 1:
            return 0
    return layers[-1].channels * height * width


def image_encoder(name: str, obs_shape: Sequence[int]) -> tuple[nn.Module, int]:
    """Returns the CNN of that name for images, and the number F of its features.

    Args:
        name: `nature`, `impala` or `small`; `auto` is `nature`.
        obs_shape: (channels, height, width); or (height, width, channels), which is transposed.
    """
    first = channels_first(obs_shape)
    if first != tuple(obs_shape):
        conv, features = image_encoder(name, first)
        return nn.Sequential(ChannelsFirst(), conv), features
    channels, height, width = first
    if name == "impala":
        impala = ImpalaConv(channels)
        return impala, impala.output_size(height, width)
    if name == "small":
        return SmallConv(channels), _flat_size(_SMALL, height, width)
    return NatureConv(channels), output_size(height, width)


class ChannelsFirst(nn.Module):
    """Moves the channels of images from the last axis to the first."""

    def forward(self, x: Tensor) -> Tensor:
        """Maps images [B, H, W, C] to [B, C, H, W]."""
        return x.permute(0, 3, 1, 2).contiguous()


class _Conv(nn.Module):
    """Scales images of bytes, and flattens the output of `convolve`."""

    largest = 255.0
    """Divisor of images of bytes."""

    def forward(self, x: Tensor) -> Tensor:
        """Maps images [B, C, H, W] to features [B, F].

        uint8 images are divided by `largest`; others are not scaled.
        """
        if not x.is_floating_point():
            scale = 1.0 / self.largest if x.dtype == torch.uint8 else 1.0
            x = x.to(next(self.parameters()).dtype).mul_(scale)
        return self.convolve(x).flatten(1)

    def convolve(self, x: Tensor) -> Tensor:
        """Maps float images [B, C, H, W] to feature maps."""
        raise NotImplementedError


class _Plain(_Conv):
    """Convolutions with ReLU, without padding."""

    def __init__(self, channels: int, layers: Sequence[_Layer]) -> None:
        super().__init__()
        self.layers = nn.ModuleList()
        for layer in layers:
            conv = nn.Conv2d(channels, layer.channels, layer.kernel, layer.stride)
            initialise(conv, _GAIN)
            self.layers.append(conv)
            channels = layer.channels

    def convolve(self, x: Tensor) -> Tensor:
        """Maps float images [B, C, H, W] to feature maps."""
        for layer in self.layers:
            x = F.relu(layer(x))
        return x


class NatureConv(_Plain):
    """The three convolutions of DQN (Mnih et al. 2015, doi:10.1038/nature14236, table 1).

    Args:
        channels: C of the images, whose height and width are at least 36.
    """

    def __init__(self, channels: int) -> None:
        super().__init__(channels, LAYERS)


class SmallConv(_Plain):
    """One 3 x 3 convolution with 16 channels, for grids (Young and Tian 2019, arXiv:1903.03176).

    Values are not scaled: in a grid they are small numbers.

    Args:
        channels: C of the images, whose height and width are at least 3.
    """

    largest = 1.0

    def __init__(self, channels: int) -> None:
        super().__init__(channels, _SMALL)


class _Residual(nn.Module):
    """x + conv(relu(conv(relu(x)))), 3 x 3, of the same size."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        convs = [nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2)]
        self.layers = nn.ModuleList(convs)
        for conv in convs:
            initialise(conv, _GAIN)

    def forward(self, x: Tensor) -> Tensor:
        """Maps [B, C, H, W] to the same shape."""
        first, second = self.layers
        out: Tensor = x + second(F.relu(first(F.relu(x))))
        return out


class ImpalaConv(_Conv):
    """The residual network of IMPALA (Espeholt et al. 2018, arXiv:1802.01561, figure 3).

    Each section is a convolution, a max pooling by 2 and two residual blocks.

    Args:
        channels: C of the images.
        sections: Channels of each section.
    """

    def __init__(self, channels: int, sections: Sequence[int] = (16, 32, 32)) -> None:
        super().__init__()
        self.sections = nn.ModuleList()
        for out in sections:
            conv = nn.Conv2d(channels, out, 3, padding=1)
            initialise(conv, 1.0)
            self.sections.append(
                nn.Sequential(conv, nn.MaxPool2d(3, 2, padding=1), _Residual(out), _Residual(out))
            )
            channels = out
        self._channels = channels

    def output_size(self, height: int, width: int) -> int:
        """Returns the number of features F of an image."""
        for _ in self.sections:
            height, width = (height + 1) // 2, (width + 1) // 2
        return self._channels * height * width

    def convolve(self, x: Tensor) -> Tensor:
        """Maps float images [B, C, H, W] to feature maps."""
        for section in self.sections:
            x = section(x)
        return F.relu(x)
