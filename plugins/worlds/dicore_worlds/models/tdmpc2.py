"""The network of TD-MPC2 (Hansen et al. 2024, arXiv:2310.16828).

    z = h(o),   z' = d(z, a),   r = R(z, a),   q_i = Q_i(z, a),   a ~ p(z),   c = C(z')

Latent states are simplices: groups of V numbers by softmax (equation 5). Rewards and values are
distributions over bins of symlog. C, the probability that an episode goes on after a step, is not
part of the paper, whose tasks do not end; the dropout of the Q networks is left out.

Shapes: B rows, A action values, Z numbers of a latent state, E Q networks, N bins.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dicore.data import Columns
from dicore_plugins.models import channels_first
from dicore_worlds.functional import exponential_bins, two_hot_mean
from dicore_worlds.models.layers import ImageEncoder
from dicore_worlds.models.tdmpc2_config import TDMPC2ModelConfig

__all__ = ["Simplices", "TDMPC2Net"]


class Simplices(nn.Module):
    """Softmax of groups of numbers (SimNorm).

    Args:
        size: V, numbers of a group.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., Z] to the same shape."""
        found: Tensor = x.unflatten(-1, (-1, self.size)).softmax(-1).flatten(-2)
        return found


def _mlp(*sizes: int) -> list[nn.Module]:
    """Returns hidden layers: linear, normalised, Mish."""
    parts: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(sizes):
        linear = nn.Linear(inputs, outputs)
        nn.init.trunc_normal_(linear.weight, std=0.02)
        nn.init.zeros_(linear.bias)
        parts += [linear, nn.LayerNorm(outputs), nn.Mish()]
    return parts


def _output(inputs: int, outputs: int, *, zero: bool = False) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    nn.init.trunc_normal_(linear.weight, std=0.02)
    if zero:
        nn.init.zeros_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


class _Critics(nn.Module):
    """E networks of two hidden layers, computed together; their last weights begin with 0."""

    def __init__(self, count: int, inputs: int, units: int, outputs: int) -> None:
        super().__init__()
        sizes = (inputs, units, units, outputs)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        self.gains, self.shifts = nn.ParameterList(), nn.ParameterList()
        for number, (rows, columns) in enumerate(itertools.pairwise(sizes)):
            weight = torch.zeros(count, rows, columns)
            if number < 2:
                nn.init.trunc_normal_(weight, std=0.02)
                self.gains.append(nn.Parameter(torch.ones(count, 1, columns)))
                self.shifts.append(nn.Parameter(torch.zeros(count, 1, columns)))
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(torch.zeros(count, 1, columns)))

    def forward(self, x: Tensor) -> Tensor:
        """Maps [B, Z + A] to logits of bins [E, B, N]."""
        found = x.expand(len(self.weights[0]), *x.shape)
        for number, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            found = torch.baddbmm(bias, found, weight)
            if number < 2:
                normed = nn.functional.layer_norm(found, found.shape[-1:])
                scaled = torch.addcmul(self.shifts[number], normed, self.gains[number])
                found = nn.functional.mish(scaled)
        return found


class TDMPC2Net(nn.Module):
    """Encoder, latent dynamics, rewards, ends, Q networks and policy.

    Args:
        obs_shape: Numbers of a vector, or (channels, height, width); channels may come last.
        action_shape: A.
        latent: Z.
        simplex: V.
        units: Units of each hidden layer.
        encoder_units: Units of the encoder's hidden layer.
        cnn_depth: Channels after the first convolution, of images.
        num_critics: E.
        bins: N.
        largest: Symlog of the last bin.
        log_std: Lowest and highest log standard deviation of the policy.

    Attributes:
        world: Encoder, dynamics, rewards, ends and Q networks; what one optimizer trains.
        policy: The policy.
    """

    config_class: Any = TDMPC2ModelConfig
    bins: Tensor

    def __init__(  # noqa: PLR0913 - each is an option of the config
        self, obs_shape: int | Sequence[int], action_shape: int, *, latent: int = 512,
        simplex: int = 8, units: int = 512, encoder_units: int = 256, cnn_depth: int = 24,
        num_critics: int = 5, bins: int = 101, largest: float = 8.0,
        log_std: tuple[float, float] = (-10.0, 2.0),
    ) -> None:  # fmt: skip
        super().__init__()
        sizes = (obs_shape,) if isinstance(obs_shape, int) else tuple(obs_shape)
        image = channels_first(sizes) if len(sizes) == 3 else None
        self._transposed, self._is_image = image is not None and image != sizes, image is not None
        self.action_size, self.latent, self._log_std = action_shape, latent, log_std
        if image is None:
            below, features = [nn.Flatten(), *_mlp(math.prod(sizes), encoder_units)], encoder_units
        else:
            convolutions = ImageEncoder(image, cnn_depth)
            below, features = [convolutions], convolutions.features
        both = latent + action_shape
        last = [_output(features, latent), nn.LayerNorm(latent), Simplices(simplex)]
        after = [_output(units, latent), nn.LayerNorm(latent), Simplices(simplex)]
        going = _output(units, 1, zero=True)
        nn.init.constant_(going.bias, 3.0)  # episodes go on, until it is learned
        self.world = nn.ModuleDict(
            {
                "encoder": nn.Sequential(*below, *last),
                "dynamics": nn.Sequential(*_mlp(both, units, units), *after),
                "reward": nn.Sequential(*_mlp(both, units, units), _output(units, bins, zero=True)),
                "going": nn.Sequential(*_mlp(latent, units), going),
                "critics": _Critics(num_critics, both, units, bins),
            }
        )
        self.policy = nn.Sequential(*_mlp(latent, units, units), _output(units, 2 * action_shape))
        self.register_buffer("bins", exponential_bins(bins, largest), persistent=False)

    def encode(self, obs: Tensor) -> Tensor:
        """Maps observations [B, ...] to latent states [B, Z]."""
        x = obs.float()
        if self._is_image:
            x = x.movedim(-1, -3) if self._transposed else x
            x = x / 255 - 0.5 if obs.dtype == torch.uint8 else x - 0.5
        found: Tensor = self.world["encoder"](x)
        return found

    def step(self, z: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the next latent states [B, Z] and logits of bins of the rewards [B, N]."""
        both = torch.cat([z, action], -1)
        return self.world["dynamics"](both), self.world["reward"](both)

    def going(self, z: Tensor) -> Tensor:
        """Returns logits that an episode goes on when it has reached a state: [B]."""
        found: Tensor = self.world["going"](z).squeeze(-1)
        return found

    def q(self, z: Tensor, action: Tensor, critics: nn.Module | None = None) -> Tensor:
        """Returns logits of bins of the Q values, [E, B, N]; of other Q networks if given."""
        found: Tensor = (critics or self.world["critics"])(torch.cat([z, action], -1))
        return found

    def act(self, z: Tensor, noise: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Draws actions of the policy.

        Args:
            z: [B, Z].
            noise: [B, A] of a standard normal distribution; None: the most probable actions.

        Returns:
            Actions in [-1, 1] [B, A], their log-densities [B], and log standard deviations [B, A].
        """
        mean, raw = self.policy(z).chunk(2, -1)
        low, high = self._log_std
        log_std = low + 0.5 * (high - low) * (torch.tanh(raw) + 1)
        if noise is None:
            noise = torch.zeros_like(mean)
        before = mean + log_std.exp() * noise
        action = torch.tanh(before)
        density = (-0.5 * noise.square() - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)
        squash = 2 * (math.log(2) - before - nn.functional.softplus(-2 * before))
        return action, density - squash.sum(-1), log_std

    def forward(self, obs: Tensor, noise: Tensor | None = None) -> Columns:
        """Computes the action of the policy, and what is predicted of it.

        Args:
            obs: [B, ...].
            noise: See `act`.

        Returns:
            `action` [B, A] in [-1, 1]; `log_prob` [B]; `value`, `reward` [B]; `going` [B], a
            probability; `next_latent` [B, Z]; logits of bins `q_logit` [B, E, N] and
            `reward_logit` [B, N].
        """
        z = self.encode(obs)
        action, log_prob, _ = self.act(z, noise)
        after, reward = self.step(z, action)
        q = self.q(z, action)
        return {
            "action": action,
            "log_prob": log_prob,
            "value": two_hot_mean(q, self.bins).mean(0),
            "reward": two_hot_mean(reward, self.bins),
            "going": torch.sigmoid(self.going(after)),
            "next_latent": after,
            "q_logit": q.transpose(0, 1),
            "reward_logit": reward,
        }
