"""The network of MuZero (Schrittwieser et al. 2020): a latent model that is made for planning.

    s_0 = h(o),    s_{k+1}, r_k = g(s_k, a_k),    p_k, v_k = f(s_k)

Latent states are scaled to [0, 1] (appendix G). Rewards and values are distributions over bins of
symlog, as those of DreamerV3, in place of the paper's scaled supports.

Shapes: B rows, A actions, Z numbers of a latent state, N bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore.data import Columns
from dicore_plugins.models import channels_first
from dicore_worlds.functional import exponential_bins, two_hot_mean
from dicore_worlds.models.layers import ImageEncoder, VectorEncoder, mlp, output_layer
from dicore_worlds.models.muzero_config import MuZeroModelConfig

__all__ = ["MuZeroNet"]


class MuZeroNet(nn.Module):
    """Representation, dynamics and prediction.

    Args:
        obs_shape: Numbers of a vector, or (channels, height, width); channels may come last.
        action_shape: A.
        latent: Z.
        units: Units of each hidden layer.
        layers: Hidden layers of each MLP.
        cnn_depth: Channels after the first convolution.
        bins: N.
        largest: Symlog of the last bin.
        projects: Have the layers of the consistency loss.
    """

    config_class: Any = MuZeroModelConfig

    def __init__(  # noqa: PLR0913 - each is an option of the config
        self, obs_shape: int | Sequence[int], action_shape: int, *, latent: int = 64,
        units: int = 128, layers: int = 1, cnn_depth: int = 24, bins: int = 101,
        largest: float = 8.0, projects: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        sizes = (obs_shape,) if isinstance(obs_shape, int) else tuple(obs_shape)
        image = channels_first(sizes) if len(sizes) == 3 else None
        self._transposed = image is not None and image != sizes
        self._is_image = image is not None
        self.action_size, self.latent = action_shape, latent
        encoder = (
            VectorEncoder(prod(sizes), units, layers)
            if image is None
            else ImageEncoder(image, cnn_depth)
        )
        self.encoder = encoder
        self.first = output_layer(int(encoder.features), latent)
        self.transition = mlp(latent + action_shape, units, layers)
        self.change = output_layer(units, latent)
        self.reward = output_layer(units, bins, 0.0)
        self.prediction = mlp(latent, units, layers)
        self.policy = output_layer(units, action_shape, 0.01)
        self.value = output_layer(units, bins, 0.0)
        self.projection = (
            nn.Sequential(mlp(latent, units, 1), output_layer(units, latent)) if projects else None
        )
        self.predictor = (
            nn.Sequential(mlp(latent, units, 1), output_layer(units, latent)) if projects else None
        )
        self.register_buffer("bins", exponential_bins(bins, largest), persistent=False)

    def represent(self, obs: Tensor) -> Tensor:
        """Maps observations [B, ...] to latent states [B, Z]; bytes are divided by 255."""
        if self._is_image:
            obs = obs.permute(0, 3, 1, 2) if self._transposed else obs
            obs = obs.float() / 255 - 0.5 if obs.dtype == torch.uint8 else obs.float() - 0.5
        return _scaled(self.first(self.encoder(obs)))

    def follow(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the next latent states [B, Z] and the logits of rewards [B, N].

        Args:
            state: [B, Z].
            action: int64 [B]; indices from 0.
        """
        chosen = F.one_hot(action, self.action_size).to(state.dtype)
        features = self.transition(torch.cat([state, chosen], -1))
        return _scaled(state + self.change(features)), self.reward(features)

    def predict(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the logits of policies [B, A] and of values [B, N]."""
        features = self.prediction(state)
        return self.policy(features), self.value(features)

    def mean(self, logit: Tensor) -> Tensor:
        """Returns the rewards or values [B] of logits [B, N]."""
        bins = self.bins
        assert isinstance(bins, Tensor)
        return two_hot_mean(logit, bins)

    def projected(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns projections of latent states, and what is predicted of others', [B, Z] each."""
        assert self.projection is not None
        assert self.predictor is not None
        projection = self.projection(state)
        return projection, self.predictor(projection)

    def forward(self, obs: Tensor) -> Columns:
        """Computes what is known of observations, and of the step by the first action.

        Args:
            obs: [B, ...].

        Returns:
            `latent` [B, Z], `logit` [B, A], `value` [B], `value_logit` [B, N]; `reward` [B] and
            `reward_logit` [B, N] of the policy's favourite action, and `consistency` [B, Z] of the
            state after it.
        """
        state = self.represent(obs)
        logit, value = self.predict(state)
        after, reward = self.follow(state, logit.argmax(-1))
        found = {
            "latent": state,
            "logit": logit,
            "value": self.mean(value),
            "value_logit": value,
            "reward": self.mean(reward),
            "reward_logit": reward,
        }
        if self.projection is not None:
            found["consistency"] = self.projected(after)[1]
        return found


def _scaled(state: Tensor) -> Tensor:
    """Scales each row [B, Z] to [0, 1]."""
    low, high = state.aminmax(dim=-1, keepdim=True)
    return (state - low) / (high - low).clamp(min=1e-5)
