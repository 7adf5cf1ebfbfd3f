"""Searching with a network: latent states in place of an environment's."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dicore_worlds.models.muzero import MuZeroNet
from dicore_worlds.planning.tree import Ints, Leaf

__all__ = ["NetworkModel"]


class NetworkModel:
    """Steps latent states [B, Z] by a network, without gradients; a `PlanningModel`.

    Args:
        model: The network.
        discount_factor: Of each step.
        device: Of the network.
    """

    def __init__(self, model: MuZeroNet, discount_factor: float, device: str = "cpu") -> None:
        self._model, self._gamma, self._device = model, discount_factor, device

    @torch.no_grad()
    def step(self, state: Tensor, action: Ints) -> Leaf:
        """Returns what comes of actions."""
        model = self._model
        after, reward = model.follow(state, torch.from_numpy(action).to(self._device))
        logit, value = model.predict(after)
        numbers = model.mean(torch.stack([reward, value])).cpu().numpy()
        discount = np.full(len(action), self._gamma, np.float32)
        return Leaf(after, logit.cpu().numpy(), numbers[1], numbers[0], discount)
