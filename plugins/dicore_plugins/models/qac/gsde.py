"""An actor with generalised state-dependent exploration (Raffin et al. 2022, arXiv:2005.05719).

The noise of an action is phi(s) @ theta: phi are the last hidden features of the actor and theta a
matrix of Gaussian weights, which is kept for several env steps. Within these steps the noise is a
smooth function of the state. Over theta, an action is Gaussian with the variance
phi(s)^2 @ exp(2 log_std), which is what losses need.

Shapes: B observations, F inputs, H features, A dimensions of an action.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dicore_plugins.models.encoders.mlp import MLP, ActivationName, Array

__all__ = ["StateDependentActor"]

_EPS = 1e-6
_MEAN_LIMIT = 2.0
"""Bound of the mean before squashing: keeps the features from growing."""


class StateDependentActor(nn.Module):
    """Computes the mean, and a standard deviation that depends on features of the state.

    Args:
        sizes: F, the hidden layers, and A; at least one hidden layer.
        activation: Activation function of the hidden layers.
        log_std_init: Initial log standard deviation of the weights of the noise.
    """

    def __init__(
        self, sizes: Sequence[int], activation: ActivationName, log_std_init: float
    ) -> None:
        super().__init__()
        *hidden, actions = sizes
        form: Any = {"initial_weights": "uniform"}
        self.trunk = MLP(hidden, activation, activate_output=True, **form)
        self.head = MLP((hidden[-1], actions), **form)
        self.log_std = nn.Parameter(torch.full((hidden[-1], actions), log_std_init))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Computes the distribution of actions, before squashing.

        Args:
            x: float32 [B, F].

        Returns:
            `mean` and `log_std` [B, A]; `features` [B, H] and `noise_std` [H, A], the standard
            deviation of theta.
        """
        features = self.trunk.forward(x)
        mean = self.head.forward(features).clamp(-_MEAN_LIMIT, _MEAN_LIMIT)
        std = self.log_std.exp()
        log_std = 0.5 * (features.square() @ std.square() + _EPS).log()
        return {"mean": mean, "log_std": log_std, "features": features, "noise_std": std}

    def by_numpy(self) -> Callable[[Array], dict[str, Array]] | None:
        """Returns the NumPy form of `forward`; see `MLP.by_numpy`."""
        trunk, head = self.trunk.by_numpy(), self.head.by_numpy()
        if trunk is None or head is None:
            return None
        log_std = self.log_std.detach().numpy()

        def forward(x: Array) -> dict[str, Array]:
            features = trunk(x)
            std = np.exp(log_std)
            mean = head(features).clip(-_MEAN_LIMIT, _MEAN_LIMIT)
            deviation = 0.5 * np.log(np.square(features) @ np.square(std) + np.float32(_EPS))
            return {"mean": mean, "log_std": deviation, "features": features, "noise_std": std}

        return forward
