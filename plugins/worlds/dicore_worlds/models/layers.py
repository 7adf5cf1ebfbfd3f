"""Layers of DreamerV3: each is normalised before its activation (SiLU).

Shapes: B rows, C channels, H x W pixels, F features.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor, nn

from dicore_plugins.functional import symlog

__all__ = ["ImageDecoder", "ImageEncoder", "VectorEncoder", "mlp", "output_layer"]

_EPS = 1e-3
"""Of layer normalisation."""
_SMALLEST = 4
"""Height or width of an image below which it is not halved again."""


def mlp(features: int, units: int, layers: int) -> nn.Sequential:
    """Returns hidden layers: linear, normalised, SiLU."""
    parts: list[nn.Module] = []
    for _ in range(layers):
        linear = nn.Linear(features, units, bias=False)
        _initialise(linear)
        parts += [linear, nn.LayerNorm(units, eps=_EPS), nn.SiLU()]
        features = units
    return nn.Sequential(*parts)


def output_layer(features: int, outputs: int, scale: float = 1.0) -> nn.Linear:
    """Returns a linear layer whose first weights are multiplied by `scale`."""
    linear = nn.Linear(features, outputs)
    _initialise(linear)
    linear.weight.data.mul_(scale)
    return linear


def _initialise(layer: nn.Linear | nn.Conv2d | nn.ConvTranspose2d) -> None:
    """Draws weights from a normal distribution, cut at 2 standard deviations, by mean fan."""
    weight = layer.weight
    area = weight[0, 0].numel()
    fan = (weight.shape[0] + weight.shape[1]) * area / 2
    std = 1 / math.sqrt(fan) / 0.87962566103423978  # that of the cut distribution is 1 / sqrt(fan)
    nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


class ChannelNorm(nn.Module):
    """Normalises the channels of each pixel of images [B, C, H, W]."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels, eps=_EPS)

    def forward(self, x: Tensor) -> Tensor:
        """Maps [B, C, H, W] to the same shape."""
        found: Tensor = self.norm(x.permute(0, 2, 3, 1))
        return found.permute(0, 3, 1, 2)


class VectorEncoder(nn.Module):
    """MLP of symlog vectors.

    Args:
        size: Numbers of an observation.
        units: F.
        layers: Hidden layers.
    """

    def __init__(self, size: int, units: int, layers: int) -> None:
        super().__init__()
        self.layers = mlp(size, units, layers)
        self.features = units

    def forward(self, obs: Tensor) -> Tensor:
        """Maps observations [B, ...] to features [B, F]."""
        found: Tensor = self.layers(symlog(obs.reshape(len(obs), -1).float()))
        return found


def _halves(size: int) -> list[int]:
    """Returns the size of an image before each convolution."""
    sizes = [size]
    while sizes[-1] // 2 >= _SMALLEST:
        sizes.append(sizes[-1] // 2)
    return sizes


class ImageEncoder(nn.Module):
    """Convolutions that halve images until they are 4 to 7 pixels high or wide.

    Args:
        shape: (channels, height, width).
        depth: Channels after the first convolution; each further one doubles them.
    """

    def __init__(self, shape: Sequence[int], depth: int) -> None:
        super().__init__()
        channels, height, width = shape
        parts: list[nn.Module] = []
        stages = min(len(_halves(height)), len(_halves(width))) - 1
        for stage in range(stages):
            conv = nn.Conv2d(channels, depth * 2**stage, 4, 2, 1, bias=False)
            _initialise(conv)
            channels = depth * 2**stage
            parts += [conv, ChannelNorm(channels), nn.SiLU()]
        self.layers = nn.Sequential(*parts)
        self.features = channels * (height >> stages) * (width >> stages)

    def forward(self, image: Tensor) -> Tensor:
        """Maps images [B, C, H, W] with values from -0.5 to 0.5 to features [B, F]."""
        found: Tensor = self.layers(image)
        return found.flatten(1)


class ImageDecoder(nn.Module):
    """The reverse of `ImageEncoder`, from features of a state.

    Args:
        features: F.
        shape: (channels, height, width).
        depth: That of the encoder.
    """

    def __init__(self, features: int, shape: Sequence[int], depth: int) -> None:
        super().__init__()
        channels, height, width = shape
        stages = min(len(_halves(height)), len(_halves(width))) - 1
        self._first = depth * 2 ** (stages - 1), height >> stages, width >> stages
        self.linear = output_layer(features, math.prod(self._first))
        parts: list[nn.Module] = []
        inputs = self._first[0]
        for stage in reversed(range(stages)):
            outputs = depth * 2 ** (stage - 1) if stage else channels
            odd = (height >> stage) % 2, (width >> stage) % 2  # a half was rounded down
            conv = nn.ConvTranspose2d(inputs, outputs, 4, 2, 1, odd, bias=not stage)
            _initialise(conv)
            parts += [conv, ChannelNorm(outputs), nn.SiLU()] if stage else [conv]
            inputs = outputs
        self.layers = nn.Sequential(*parts)

    def forward(self, features: Tensor) -> Tensor:
        """Maps features [B, F] to images [B, C, H, W] with values from -0.5 to 0.5."""
        found: Tensor = self.layers(self.linear(features).unflatten(-1, self._first))
        return found
