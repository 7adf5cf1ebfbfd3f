"""Networks whose weights have unit norm, of FlashSAC (Kim et al. 2026, arXiv:2604.04539).

    h_0 = U_0 BN(x);   h_l = h_(l-1) + relu(BN(U_2 relu(BN(U_1 h_(l-1)))));   y = U_o RMS(h) + b

U_1 has four times the outputs of U_2. All U are orthogonal at first and have no bias. `project`
divides each row of a U, the weights of one output, by its Euclidean norm, and scales the learned
numbers of a normalisation of d features together: BN so that |scale|^2 + |shift|^2 = d, RMS so that
|scale|^2 = d.

Shapes: E networks, B rows, F features, A dimensions of an action, N atoms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore.data import Tree
from dicore_contrib.models.flash_config import FlashSACModelConfig
from dicore_plugins.models import CategoricalQAC

__all__ = ["FlashSACNet", "UnitNormLayers"]

_EXPANSION = 4
_LOG_STD = (-10.0, 2.0)
_MOMENTUM = 0.01
_BATCH_EPS, _RMS_EPS = 1e-5, 1e-6


class _BatchNorm(nn.Module):
    """Normalises over the batch in training mode, else by running statistics, which that moves."""

    mean: Tensor
    var: Tensor

    def __init__(self, count: int, features: int) -> None:
        super().__init__()
        shape = count, 1, features
        self.scale, self.shift = nn.Parameter(torch.ones(shape)), nn.Parameter(torch.zeros(shape))
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("var", torch.ones(shape))

    def forward(self, x: Tensor, *, frozen: bool = False) -> Tensor:
        """Normalises [E, B, F]; `frozen`: see `UnitNormLayers`."""
        scale, shift = (p.detach() if frozen else p for p in (self.scale, self.shift))
        if not self.training:
            return torch.addcmul(shift, x - self.mean, scale * torch.rsqrt(self.var + _BATCH_EPS))
        mean = x.mean(1, keepdim=True)
        centred = x - mean
        var = centred.square().mean(1, keepdim=True)
        self._follow(mean.detach(), var.detach(), x.shape[1])
        return torch.addcmul(shift, centred, scale * torch.rsqrt(var + _BATCH_EPS))

    @torch.no_grad()
    def _follow(self, mean: Tensor, var: Tensor, rows: int) -> None:
        finite = torch.isfinite(mean + var)  # else the next batches would be NaN, too
        unbiased = var * (rows / max(rows - 1, 1))
        self.mean.lerp_(torch.where(finite, mean, self.mean), _MOMENTUM)
        self.var.lerp_(torch.where(finite, unbiased, self.var), _MOMENTUM)

    def project(self) -> None:
        size = self.scale.square() + self.shift.square()
        factor = size.mean(-1, keepdim=True).rsqrt()
        self.scale.mul_(factor)
        self.shift.mul_(factor)


class UnitNormLayers(nn.Module):
    """E residual networks with weights of unit norm, computed together.

    Args:
        count: E.
        sizes: Input, units of h for each block (all equal), output.
        activation: Name of the activation function of the blocks.
    """

    def __init__(self, count: int, sizes: Sequence[int], activation: str = "relu") -> None:
        super().__init__()
        inputs, *blocks, outputs = sizes
        units = blocks[0]
        self._activation: Callable[[Tensor], Tensor] = getattr(F, activation)
        inner = [width for _ in blocks for width in (units * _EXPANSION, units)]
        widths = [inputs, units, *inner]
        pairs = [*pairwise(widths), (units, outputs)]
        self.weights = nn.ParameterList(torch.empty(count, *pair) for pair in pairs)
        self.norms = nn.ModuleList(_BatchNorm(count, width) for width in (inputs, *inner))
        self.rms_scale = nn.Parameter(torch.ones(count, 1, units))
        self.bias = nn.Parameter(torch.zeros(count, 1, outputs))
        for weight in self.weights:
            for each in weight.detach():
                each.copy_(nn.init.orthogonal_(torch.empty(each.shape[::-1])).T)
        self.project()

    def _norms(self) -> list[_BatchNorm]:
        return [*self.norms]

    @torch.no_grad()
    def project(self) -> None:
        """Gives weights and learned scales their norms, in place."""
        for weight in self.weights:
            weight.copy_(F.normalize(weight, dim=1))
        for norm in self._norms():
            norm.project()
        self.rms_scale.mul_(self.rms_scale.square().mean(-1, keepdim=True).rsqrt())

    def forward(self, x: Tensor, *, frozen: bool = False) -> Tensor:
        """Maps [B, I] to [E, B, O]; `frozen`: the parameters get no gradient, `x` does."""
        weights = [each.detach() if frozen else each for each in self.weights]
        scale, bias = (p.detach() if frozen else p for p in (self.rms_scale, self.bias))
        first, *norms = self._norms()
        x = first(x.expand(len(bias), *x.shape[-2:]), frozen=frozen).bmm(weights[0])
        for index in range(0, len(norms), 2):
            y = x
            for norm, weight in zip(norms[index:][:2], weights[index + 1 :][:2], strict=True):
                y = self._activation(norm(y.bmm(weight), frozen=frozen))
            x = x + y
        return torch.baddbmm(bias, F.rms_norm(x, x.shape[-1:], eps=_RMS_EPS) * scale, weights[-1])


class FlashSACNet(CategoricalQAC):
    """An actor and E networks of the distribution of returns, all of unit norm.

    Args:
        obs_shape: An int or 1-tuple; unused if `obs_parts` is given.
        action_shape: A.
        num_critics: E.
        n_atom: N.
        v_min: Value of the lowest atom.
        v_max: Value of the highest atom.
        actor_hidden_size_list: Units of each block of the actor.
        critic_hidden_size_list: Units of each block of each network of distributions.
        activation: Activation function of the blocks.
        **options: `obs_parts` and `obs_norm` of `QAC`.
    """

    config_class: Any = FlashSACModelConfig

    def __init__(  # noqa: PLR0913 - one argument per option
        self,
        obs_shape: int | Sequence[int] | None,
        action_shape: int | None,
        *,
        num_critics: int = 2,
        n_atom: int = 101,
        v_min: float = -5.0,
        v_max: float = 5.0,
        actor_hidden_size_list: Sequence[int] = (128, 128),
        critic_hidden_size_list: Sequence[int] = (256, 256),
        activation: Any = "relu",
        **options: Any,
    ) -> None:
        small = {"actor_hidden_size_list": (1,), "critic_hidden_size_list": (1,)}
        super().__init__(
            n_atom, v_min, v_max, obs_shape=obs_shape, action_shape=action_shape, **small, **options
        )
        assert action_shape is not None, "CategoricalQAC raises an error"
        features = self.encode.features
        sizes = (features, *actor_hidden_size_list, 2 * action_shape)
        self.actor = UnitNormLayers(1, sizes, activation)
        critics: Any = UnitNormLayers(
            num_critics, (features + action_shape, *critic_hidden_size_list, n_atom), activation
        )
        self.critic = critics
        self.eval()

    def policy(self, obs: Tree) -> dict[str, Tensor]:
        """Computes `mean` and `log_std` of the actor, [B, A] each, before tanh."""
        mean, raw = self.actor(self.encode(obs))[0].chunk(2, -1)
        low, high = _LOG_STD
        return {"mean": mean, "log_std": low + (high - low) / 2 * (1 + raw.tanh())}
