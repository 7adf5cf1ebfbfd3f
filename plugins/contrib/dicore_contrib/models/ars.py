"""The network of augmented random search (Mania et al. 2018, arXiv:1803.07055).

Shapes: K rows, I numbers of an observation, A actions or action values, P parameters.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from dicore_contrib.models.ars_config import ARSModelConfig
from dicore_plugins.models import RunningNorm

__all__ = ["ARSNet"]

Floats = npt.NDArray[np.float32]


class ARSNet(nn.Module):
    """Layers with tanh between them; the outputs are nearly 0 at first.

    Args:
        obs_shape: I.
        action_shape: A.
        hidden_size_list: Units of the hidden layers.
        continuous: Whether actions are real numbers.
        bias: Whether layers add a constant.
        obs_norm: Normalise observations by running statistics.

    Attributes:
        norm: The statistics, which whoever trains updates; None: there are none.
    """

    config_class = ARSModelConfig

    def __init__(
        self, obs_shape: int, action_shape: int, hidden_size_list: Sequence[int] = (), *,
        continuous: bool = False, bias: bool = True, obs_norm: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        self.continuous = continuous
        sizes = [obs_shape, *hidden_size_list, action_shape]
        self._pairs, self._bias = list(itertools.pairwise(sizes)), bias
        self.layers = nn.ModuleList(nn.Linear(*pair, bias=bias) for pair in self._pairs)
        for parameter in self.layers[-1].parameters():
            nn.init.normal_(parameter, std=1e-3)
        self.norm = RunningNorm(obs_shape) if obs_norm else None

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """Computes `logit` of observations [K, I], or `mean` if continuous: float32 [K, A]."""
        obs = (obs if obs.dim() > 1 else obs[:, None]).float().flatten(1)
        if self.norm is not None:
            obs = self.norm(obs)
        for layer in self.layers[:-1]:
            obs = layer(obs).tanh()
        return {"mean" if self.continuous else "logit": self.layers[-1](obs)}

    def each(self, parameters: Floats, obs: Floats) -> Floats:
        """Computes the outputs of K networks of this form, each for one observation.

        Args:
            parameters: float32 [K, P]; those of a network in the order of `parameters()`.
            obs: float32 [K, I].

        Returns:
            float32 [K, A].
        """
        if self.norm is not None:
            obs = self.norm(torch.from_numpy(obs).to(self.norm.mean.device)).cpu().numpy()
        x, at = obs[:, None, :], 0
        for index, (deep, wide) in enumerate(self._pairs):
            if index:
                x = np.tanh(x)
            weight = parameters[:, at : at + wide * deep].reshape(-1, wide, deep)
            at += wide * deep
            x = x @ weight.transpose(0, 2, 1)
            if self._bias:
                x = x + parameters[:, None, at : at + wide]
                at += wide
        return x[:, 0]
