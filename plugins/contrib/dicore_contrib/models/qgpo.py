"""The networks of QGPO (Lu et al. 2023, arXiv:2304.12824): noise in actions, energies, Q values.

Those of noise and energies take an observation, a noisy action and the time of the diffusion.

Shapes: B observations, F features of one, A dimensions of an action, E Q networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dicore.data import Tree
from dicore_contrib.models.denoiser import step_features
from dicore_contrib.models.qgpo_config import QGPOModelConfig
from dicore_plugins.models import MLP, QAC

__all__ = ["QGPONet"]


class QGPONet(QAC):
    """Predicts the noise in actions and their energies, and has Q networks; actions in [-1, 1].

    Args:
        energy_hidden_size_list: Units of each hidden layer of the energy network.
        time_features: Numbers that describe the time of the diffusion.
        **options: Arguments of `QAC`; its actor is the network of the noise.
    """

    config_class: Any = QGPOModelConfig

    def __init__(
        self,
        *,
        energy_hidden_size_list: Sequence[int] = (256, 256),
        time_features: int = 16,
        **options: Any,
    ) -> None:
        super().__init__(stochastic=False, **options)
        self.action_size = int(options["action_shape"])
        self._time_features = time_features
        width = self.encode.features + self.action_size + time_features
        hidden = options.get("actor_hidden_size_list", (256, 256))
        activation = options.get("activation", "gelu")
        self.actor = MLP((width, *hidden, self.action_size), activation, initial_weights="uniform")
        self.energy = MLP(
            (width, *energy_hidden_size_list, 1), activation, initial_weights="uniform"
        )

    def noise(self, features: Tensor, action: Tensor, time: Tensor) -> Tensor:
        """Predicts the noise in actions: float32 [B, A].

        Args:
            features: float32 [B, F]; encoded observations.
            action: float32 [B, A]; noisy.
            time: float32 [B], or [1] of all; from 0 to 1.
        """
        found: Tensor = self.actor.forward(self._inputs(features, action, time))
        return found

    def energy_of(self, features: Tensor, action: Tensor, time: Tensor) -> Tensor:
        """Computes the energies of noisy actions, see `noise`: float32 [B]."""
        return self.energy.forward(self._inputs(features, action, time)).squeeze(-1)

    def _inputs(self, features: Tensor, action: Tensor, time: Tensor) -> Tensor:
        described = step_features(100 * time, self._time_features)
        return torch.cat((features, action, described.expand(len(action), -1)), -1)

    def policy(self, obs: Tree) -> dict[str, Tensor]:
        """Computes `noise` [B, A] and `energy` [B] of actions of zeros, where all is noise."""
        features = self.encode.forward(obs)
        action = features.new_zeros(len(features), self.action_size)
        given = features, action, features.new_ones(1)
        return {"noise": self.noise(*given), "energy": self.energy_of(*given)}

    def both(self, obs: Tree) -> dict[str, Tensor]:
        """Computes `policy`, and `q_value` float32 [B, E] of actions of zeros."""
        found = self.policy(obs)
        return {**found, **self.critic_of(obs, torch.zeros_like(found["noise"]))}

    def act_numpy(self) -> None:
        """Returns None: it has no NumPy form."""
