"""Networks of a world model: Gaussians of what changes, and the chance of a termination.

Shapes: E networks, B samples, F inputs, D predicted numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dicore_plugins.functional.world_models import soft_clamp
from dicore_plugins.models.encoders.ensemble import EnsembleMLP
from dicore_plugins.models.encoders.mlp import ActivationName

__all__ = ["GaussianEnsemble", "Prediction"]


class Prediction(NamedTuple):
    """What the networks predict.

    Args:
        mean: float32 [E, B, D]; of the normalised numbers.
        log_var: float32 [E, B, D]; logarithm of their variance.
        done: float32 [E, B]; logit of a termination.
    """

    mean: Tensor
    log_var: Tensor
    done: Tensor


class GaussianEnsemble(nn.Module):
    """E networks that predict D numbers, each with its uncertainty, and a termination.

    Args:
        count: E.
        inputs: F.
        outputs: D.
        hidden: Units of each hidden layer.
        activation: Activation function of the hidden layers.

    Attributes:
        mean, std: float32 [F]; by which inputs are normalised.
        target_mean, target_std: float32 [D]; by which predictions are.
    """

    mean: Tensor
    std: Tensor
    target_mean: Tensor
    target_std: Tensor

    def __init__(
        self,
        count: int,
        inputs: int,
        outputs: int,
        hidden: Sequence[int] = (200, 200),
        activation: ActivationName = "gelu",
    ) -> None:
        super().__init__()
        sizes = (inputs, *hidden, 2 * outputs + 1)
        self.nets = EnsembleMLP(count, sizes, activation, initial_weights="uniform")
        self.low = nn.Parameter(torch.full((outputs,), -10.0))
        self.high = nn.Parameter(torch.full((outputs,), 0.5))
        for name, size in (("", inputs), ("target_", outputs)):
            self.register_buffer(f"{name}mean", torch.zeros(size))
            self.register_buffer(f"{name}std", torch.ones(size))

    def normalise_by(self, inputs: Tensor, targets: Tensor) -> None:
        """Takes mean and standard deviation of samples [B, F] and [B, D]."""
        for name, rows in (("", inputs), ("target_", targets)):
            std = rows.std(0, correction=0)
            getattr(self, f"{name}mean").copy_(rows.mean(0))
            getattr(self, f"{name}std").copy_(torch.where(std < 1e-6, 1.0, std))

    def forward(self, inputs: Tensor) -> Prediction:
        """Predicts from inputs float32 [B, F], or [E, B, F] of each network."""
        x = self.nets.forward((inputs - self.mean) / self.std)
        mean, log_var = x[..., :-1].chunk(2, -1)
        return Prediction(mean, soft_clamp(log_var, self.low, self.high), x[..., -1])
