"""BroNet, and the network of BRO (Nauman et al. 2024, arXiv:2405.16158).

    h_0 = relu(LN(W_i x));   h_l = h_(l-1) + LN(W_2 relu(LN(W_1 h_(l-1))));   y = W_o h

with biases; W are orthogonal at first.

Shapes: B observations, A dimensions of an action, E networks, N quantiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore.data import Tree
from dicore_contrib.models.bro_config import BROModelConfig
from dicore_plugins.models import QuantileQAC

__all__ = ["BRONet", "BroNetLayers"]

_GAIN = math.sqrt(2.0)
_LOG_STD = (-10.0, 2.0)


class BroNetLayers(nn.Module):
    """E residual networks with normalised layers, computed together.

    Args:
        count: E.
        sizes: Input, units of h for each block (all equal), output.
        activation: Name of the activation function of the layers.
        output_gain: Gain of the first weights of the output.
        output_bias: The output has a bias.
    """

    def __init__(
        self,
        count: int,
        sizes: Sequence[int],
        activation: str = "relu",
        *,
        output_gain: float = _GAIN,
        output_bias: bool = True,
    ) -> None:
        super().__init__()
        inputs, *blocks, outputs = sizes
        self._activation, self._output_gain = getattr(F, activation), output_gain
        widths = [inputs, blocks[0], *(units for width in blocks for units in (width, width))]
        self.weights = nn.ParameterList(
            torch.empty(count, *pair) for pair in pairwise((*widths, outputs))
        )
        self.biases = nn.ParameterList(torch.empty(count, 1, width) for width in widths[1:])
        self.scales = nn.ParameterList(torch.empty(count, 1, width) for width in widths[1:])
        self.shifts = nn.ParameterList(torch.empty(count, 1, width) for width in widths[1:])
        if output_bias:
            self.biases.append(nn.Parameter(torch.empty(count, 1, outputs)))
        self.draw()

    @torch.no_grad()
    def draw(self) -> None:
        """Draws all parameters anew, by torch's generator."""
        last = len(self.weights) - 1
        for index, weight in enumerate(self.weights):
            for each in weight:
                drawn = torch.empty(each.shape[::-1])
                nn.init.orthogonal_(drawn, self._output_gain if index == last else _GAIN)
                each.copy_(drawn.T)
        for group, value in ((self.biases, 0.0), (self.scales, 1.0), (self.shifts, 0.0)):
            for parameter in group:
                parameter.fill_(value)

    def forward(self, x: Tensor, *, frozen: bool = False) -> Tensor:
        """Maps [B, I] to [E, B, O]; `frozen`: the parameters get no gradient, `x` does."""
        groups = self.weights, self.biases, self.scales, self.shifts
        w, b, scale, shift = ([p.detach() if frozen else p for p in group] for group in groups)

        def normed(index: int, rows: Tensor) -> Tensor:
            rows = torch.baddbmm(b[index], rows, w[index])
            return torch.addcmul(shift[index], F.layer_norm(rows, rows.shape[-1:]), scale[index])

        x = self._activation(normed(0, x.expand(len(w[0]), *x.shape[-2:])))
        for index in range(1, len(scale), 2):
            x = x + normed(index + 1, self._activation(normed(index, x)))
        return torch.baddbmm(b[-1], x, w[-1]) if len(b) == len(w) else x.bmm(w[-1])


class BRONet(QuantileQAC):
    """An actor, an actor that explores, and two Q networks of quantiles.

    Args:
        obs_shape: An int or 1-tuple; unused if `obs_parts` is given.
        action_shape: A.
        num_quantiles: N.
        actor_hidden_size_list: Units of each block of the actors.
        critic_hidden_size_list: Units of each block of each Q network.
        activation: Activation function of the layers.
        std_multiplier: Standard deviation of the actor that explores, relative to the actor's.
        **options: `obs_parts` and `obs_norm` of `QAC`.

    Attributes:
        explorer: Maps features and mean [B, F + A] to how far exploring moves the mean, [1, B, A].
        std_multiplier: See the argument.
    """

    config_class: Any = BROModelConfig

    def __init__(
        self,
        obs_shape: int | Sequence[int] | None,
        action_shape: int | None,
        *,
        num_quantiles: int = 100,
        actor_hidden_size_list: Sequence[int] = (256,),
        critic_hidden_size_list: Sequence[int] = (512, 512),
        activation: Any = "relu",
        std_multiplier: float = 0.75,
        **options: Any,
    ) -> None:
        small = {"actor_hidden_size_list": (1,), "critic_hidden_size_list": (1,)}
        super().__init__(
            num_quantiles, obs_shape=obs_shape, action_shape=action_shape, **small, **options
        )
        assert action_shape is not None, "QuantileQAC raises an error"
        features, width = self.encode.features, action_shape
        sizes = (features, *actor_hidden_size_list, 2 * width)
        self.actor = BroNetLayers(1, sizes, activation)
        critics: Any = BroNetLayers(
            2, (features + width, *critic_hidden_size_list, num_quantiles), activation
        )
        self.critic = critics
        self.explorer = BroNetLayers(
            1, (features + width, *actor_hidden_size_list, width), activation,
            output_gain=0.01, output_bias=False,
        )  # fmt: skip
        self.std_multiplier = std_multiplier

    def draw(self) -> None:
        """Draws the parameters of all networks anew; statistics of observations stay."""
        parts: tuple[Any, ...] = self.actor, self.critic, self.explorer
        for part in parts:
            part.draw()

    def policy(self, obs: Tree) -> dict[str, Tensor]:
        """Computes `mean` and `log_std` of the actor, [B, A] each, before tanh."""
        mean, raw = self.actor(self.encode(obs))[0].chunk(2, -1)
        low, high = _LOG_STD
        return {"mean": mean, "log_std": low + 0.5 * (high - low) * (1 + raw.tanh())}

    def shift(self, obs: Tree, mean: Tensor) -> Tensor:
        """Computes how far exploring moves the means of the actor, [B, A]."""
        found: Tensor = self.explorer(torch.cat([self.encode(obs), mean], -1))[0]
        return found

    def optimistic(self, obs: Tree) -> dict[str, Tensor]:
        """Computes `mean` and `log_std` of the actor that explores."""
        output = self.policy(obs)
        mean = output["mean"] + self.shift(obs, output["mean"])
        return {"mean": mean, "log_std": output["log_std"] + math.log(self.std_multiplier)}

    def both(self, obs: Tree) -> dict[str, Tensor]:
        """Computes the outputs of `QAC`, and `shift`, how far exploring moves the mean."""
        found = super().both(obs)
        return {**found, "shift": self.shift(obs, found["mean"])}
