"""An actor whose standard deviation does not depend on the state.

Shapes: B observations, F features, A dimensions of an action.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from dicore_plugins.models.encoders.mlp import MLP, ActivationName, Array

__all__ = ["FixedStdActor"]

_LOG_STD = (-5.0, 2.0)
"""Range of the log standard deviation: the likelihood of an action stays finite."""


class FixedStdActor(nn.Module):
    """Computes the mean, and a learned standard deviation that is the same in all states.

    Args:
        sizes: F, the hidden layers, and A.
        activation: Activation function of the hidden layers.
        log_std_init: Initial log standard deviation.
    """

    def __init__(
        self, sizes: Sequence[int], activation: ActivationName, log_std_init: float
    ) -> None:
        super().__init__()
        self.trunk = MLP(sizes, activation, initial_weights="uniform")
        self.log_std = nn.Parameter(torch.full((sizes[-1],), log_std_init))

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        """Computes `mean` and `log_std` float32 [B, A] of features float32 [B, F]."""
        mean = self.trunk.forward(x)
        return {"mean": mean, "log_std": self.log_std.clamp(*_LOG_STD).expand_as(mean)}

    def by_numpy(self) -> Callable[[Array], dict[str, Array]] | None:
        """Returns the NumPy form of `forward`; see `MLP.by_numpy`."""
        trunk, log_std = self.trunk.by_numpy(), self.log_std.detach().numpy()
        if trunk is None:
            return None

        def forward(x: Array) -> dict[str, Array]:
            mean = trunk(x)
            return {"mean": mean, "log_std": np.broadcast_to(log_std.clip(*_LOG_STD), mean.shape)}

        return forward
