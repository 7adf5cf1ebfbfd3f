"""The network of MuZero (Schrittwieser et al. 2020): a latent model that is made for planning.

    s_0 = h(o),    s_{k+1}, r_k = g(s_k, a_k),    p_k, v_k = f(s_k)

Latent states are scaled to [0, 1] (appendix G). Rewards and values are distributions over bins of
symlog, as those of DreamerV3, in place of the paper's scaled supports.

With a value prefix (Ye et al. 2021, EfficientZero) an LSTM over the states predicts the sum of the
rewards so far, in place of each: which step of a few gives a reward need not be known. It begins
anew after every `value_prefix` steps:

    p_k, m_{k+1} = LSTM(s_{k+1}, m_k),    r_k = p_k - p_{k-1};    at first m_k = 0, p_{k-1} = 0

Shapes: B rows, A actions, Z numbers of a latent state, N bins, S numbers of a state of the LSTM.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore.data import Columns
from dicore_plugins.models import Recurrent, channels_first
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
        value_prefix: Steps over which rewards are summed up; 0: each reward is predicted.
    """

    config_class: Any = MuZeroModelConfig

    def __init__(  # noqa: PLR0913 - each is an option of the config
        self, obs_shape: int | Sequence[int], action_shape: int, *, latent: int = 64,
        units: int = 128, layers: int = 1, cnn_depth: int = 24, bins: int = 101,
        largest: float = 8.0, projects: bool = True, value_prefix: int = 0,
    ) -> None:  # fmt: skip
        super().__init__()
        sizes = (obs_shape,) if isinstance(obs_shape, int) else tuple(obs_shape)
        image = channels_first(sizes) if len(sizes) == 3 else None
        self._transposed = image is not None and image != sizes
        self._is_image = image is not None
        self.action_size, self.latent = action_shape, latent
        self.value_prefix = value_prefix
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
        self.sums = Recurrent(latent, units, "lstm") if value_prefix else None
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
        return self.follow_on(state, action, None)[:2]

    def follow_on(
        self, state: Tensor, action: Tensor, memory: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Returns the next latent states, logits of rewards, and states of the LSTM [B, S].

        With a value prefix the logits are those of sums of rewards since the LSTM began.

        Args:
            state: [B, Z].
            action: int64 [B]; indices from 0.
            memory: float32 [B, S]; states of the LSTM; None: it begins.
        """
        chosen = F.one_hot(action, self.action_size).to(state.dtype)
        features = self.transition(torch.cat([state, chosen], -1))
        after = _scaled(state + self.change(features))
        if self.sums is None:
            return after, self.reward(features), None
        output, memory = self.sums(after, memory)
        return after, self.reward(output), memory

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
