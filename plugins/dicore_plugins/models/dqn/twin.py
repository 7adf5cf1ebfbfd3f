"""Two Q networks with a temperature, for soft Q-learning.

Shapes: B observations, K ready environments, A actions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dicore.values import Columns, Tree
from dicore_plugins.models.dqn.config import SQNModelConfig
from dicore_plugins.models.dqn.model import DQN
from dicore_plugins.models.encoders.mlp import applies

__all__ = ["SQN"]


class SQN(nn.Module):
    """Two independent Q networks, of which the smaller value counts (Fujimoto et al. 2018).

    The policy is softmax(min(Q_1, Q_2) / temperature).

    Args:
        temperature: Initial temperature.
        **options: Arguments of `DQN`, for both networks.

    Attributes:
        nets: The two networks.
        log_temperature: float32 [1]; its logarithm, which is learned.
    """

    config_class = SQNModelConfig

    def __init__(self, temperature: float = 0.2, **options: Any) -> None:
        super().__init__()
        self.nets = nn.ModuleList(DQN(**options) for _ in range(2))
        self.log_temperature = nn.Parameter(torch.full((1,), math.log(temperature)))
        self.noisy = bool(options.get("noisy", False))

    @property
    def _nets(self) -> tuple[Any, Any]:
        nets: Any = self._modules["nets"]  # as in DQN
        return tuple(nets._modules.values())  # noqa: SLF001

    def forward(self, obs: Tree) -> Columns:
        """Computes the policy.

        Args:
            obs: [B, ...], as for `DQN.forward`.

        Returns:
            `logit`: min(Q_1, Q_2) / temperature, float32 [B, A], or a list with one per head.
        """
        scale, q = torch.exp(-self.log_temperature), self.q(obs)
        return {"logit": q * scale if isinstance(q, Tensor) else [each * scale for each in q]}

    def q(self, obs: Tree) -> Tree:
        """Computes min(Q_1, Q_2): float32 [B, A], or a list with one per head."""
        one, other = self.both(obs)
        if isinstance(one, Tensor):
            return torch.minimum(one, other)
        return [torch.minimum(*pair) for pair in zip(one, other, strict=True)]

    def both(self, obs: Tree) -> tuple[Any, Any]:
        """Computes Q_1 and Q_2, each as `q`."""
        return self._nets[0].q(obs), self._nets[1].q(obs)

    def reset_noise(self, *, on: bool = True) -> None:
        """Draws new noise for noisy layers, or removes it; see `NoisyMLP.reset_noise`."""
        for net in self._nets:
            net.reset_noise(on=on)

    def act_numpy(self) -> Callable[[Tree], Any] | None:
        """Returns the NumPy forward pass, on views of the parameters; see `DQN.act_numpy`."""
        own = applies(type(self), "act_numpy", "forward", "q", "both")
        acts = [net.act_numpy() for net in self._nets]
        if not own or acts[0] is None or acts[1] is None:
            return None
        first, second = acts[0], acts[1]

        def act(obs: Tree) -> Tree:
            one, other = first(obs), second(obs)
            scale = np.exp(-self.log_temperature.detach().numpy())
            if isinstance(one, np.ndarray):
                return np.minimum(one, other) * scale
            return [np.minimum(*pair) * scale for pair in zip(one, other, strict=True)]

        return act
