"""Energy-based model of actions (Florence et al. 2021, arXiv:2109.00137).

Shapes: B observations, N candidate actions, A actions or dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dicore.errors import ConfigError
from dicore.values import Tree
from dicore_plugins.models.encoders.mlp import ACTIVATIONS, MLP, ActivationName, initialise
from dicore_plugins.models.encoders.observation import ObsEncoder
from dicore_plugins.models.imitation.ebm_config import EBMConfig
from dicore_plugins.models.shapes import Part

__all__ = ["EBM"]


class EBM(nn.Module):
    """Scores pairs of an observation and an action; the score is minus the energy.

    The policy is softmax of the scores: over all discrete actions, or over [-1, 1]^A.

    Args:
        obs_shape: An int or 1-tuple for vectors, (channels, height, width) for images; unused if
            `obs_parts` is given.
        action_shape: A.
        continuous: Actions are vectors in [-1, 1]; False: indices, seen one-hot.
        hidden_size_list: Units of each hidden layer, at least one.
        activation: Activation function of the hidden layers.
        obs_parts: Leaves of a nested or categorical observation; None: one numeric array.
        conv: Name of the CNN for images; see `image_encoder`.

    Raises:
        ConfigError: a shape is unsupported or missing.
    """

    config_class = EBMConfig

    def __init__(
        self,
        obs_shape: int | Sequence[int] | None,
        action_shape: int | None,
        *,
        continuous: bool = False,
        hidden_size_list: Sequence[int] = (128, 128),
        activation: ActivationName = "relu",
        obs_parts: Sequence[Part] | None = None,
        conv: str = "auto",
    ) -> None:
        super().__init__()
        if not isinstance(action_shape, int):
            raise ConfigError(f"model.action_shape must be one number, got {action_shape!r}")
        if not hidden_size_list:
            raise ConfigError("model.hidden_size_list needs at least one layer")
        self.continuous, self._actions = continuous, action_shape
        self.encode = ObsEncoder(obs_shape, obs_parts, conv=conv)
        first = hidden_size_list[0]
        self.of_obs = nn.Linear(self.encode.features, first)
        self.of_action = nn.Linear(action_shape, first, bias=False)
        self._activation = ACTIVATIONS[activation]
        for layer in (self.of_obs, self.of_action):
            initialise(layer, self._activation.gain)
        self.above = MLP((*hidden_size_list, 1), activation)

    def forward(self, obs: Tree, action: Tensor | None = None) -> dict[str, Tensor]:
        """Computes scores.

        Args:
            obs: [B, ...]; vectors, images, categories, or a tree of these.
            action: float32 [B, N, A] or [N, A]: candidates, one-hot if discrete; None: all discrete
                actions, or the middle of continuous ones.

        Returns:
            `logit` float32 [B, N].
        """
        if action is None:
            device = self.of_action.weight.device
            action = (
                torch.zeros(1, self._actions, device=device)
                if self.continuous
                else torch.eye(self._actions, device=device)
            )
        seen = self.of_obs(self.encode.forward(obs)).unsqueeze(1)
        x = self._activation.by_torch(seen + self.of_action(action))
        rows = self.above.forward(x.reshape(-1, x.shape[-1]))
        return {"logit": rows.view(x.shape[:2])}
