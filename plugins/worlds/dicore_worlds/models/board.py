"""The network of AlphaZero (Silver et al. 2018), small: policy and value of a board.

Shapes: B boards, C planes of H x W cells, A actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore_worlds.models.board_config import BoardModelConfig
from dicore_worlds.models.layers import ChannelNorm, mlp, output_layer

__all__ = ["BoardNet"]


class BoardNet(nn.Module):
    """Returns what to do on a board, and who is expected to win.

    Args:
        obs_shape: Numbers of a vector, or (planes, height, width).
        action_shape: A.
        blocks: Residual blocks of the board.
        channels: Channels of convolutions.
        units: Units of each hidden layer.
        layers: Hidden layers.
    """

    config_class: ClassVar[type[BoardModelConfig]] = BoardModelConfig

    def __init__(
        self, obs_shape: int | Sequence[int], action_shape: int, *, blocks: int = 0,
        channels: int = 32, units: int = 128, layers: int = 2,
    ) -> None:  # fmt: skip
        super().__init__()
        sizes = (obs_shape,) if isinstance(obs_shape, int) else tuple(obs_shape)
        self.action_size, features = action_shape, prod(sizes)
        self.tower = nn.Sequential()
        if blocks:
            self.tower.append(_convolution(sizes[0], channels))
            self.tower.extend(_Block(channels) for _ in range(blocks))
            features = channels * prod(sizes[1:])
        self.layers = mlp(features, units, layers)
        self.policy = output_layer(units, action_shape, 0.01)
        self.value = output_layer(units, 1, 0.01)

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """Computes policies and values.

        Args:
            obs: [B, ...].

        Returns:
            `logit` float32 [B, A], and `value` float32 [B] from -1 (lost) to 1 (won).
        """
        features = self.layers(self.tower(obs.float()).flatten(1))
        value = torch.tanh(self.value(features)).squeeze(-1)
        return {"logit": self.policy(features), "value": value}


def _convolution(inputs: int, outputs: int) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return nn.Sequential(convolution, ChannelNorm(outputs), nn.ReLU())


class _Block(nn.Module):
    """Two convolutions beside which the input goes on."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = _convolution(channels, channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = ChannelNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.norm(self.second(self.first(x))))
