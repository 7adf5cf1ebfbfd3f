"""The network of DreamerV3: a latent world model, an actor and a critic.

Shapes: see `dicore_worlds.interface`; F = D + G * C features of a state, N bins, S numbers of what
is kept of an environment between steps: the latent state and the last action.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from dicore.data import Columns
from dicore_plugins.models import channels_first
from dicore_worlds.functional import (
    categorical_sample,
    exponential_bins,
    gaussian_entropy,
    gaussian_log_prob,
    two_hot_mean,
    unimix,
)
from dicore_worlds.interface import Imagined, LatentState, Observed
from dicore_worlds.models.config import DreamerModelConfig
from dicore_worlds.models.layers import (
    ImageDecoder,
    ImageEncoder,
    VectorEncoder,
    mlp,
    output_layer,
)
from dicore_worlds.models.rssm import RSSM

__all__ = ["DreamerNet"]

_LEAST_STD, _MOST_STD = 0.1, 1.0


class DreamerNet(nn.Module):
    """World model, actor and critic.

    Args:
        obs_shape: Numbers of a vector, or (channels, height, width); channels may come last.
        action_shape: A.
        continuous: Actions are numbers from -1 to 1, not one of A choices.
        deter: D.
        units: Units of each hidden layer.
        layers: Hidden layers of each MLP.
        cnn_depth: Channels after the first convolution.
        groups: G.
        classes: C.
        uniform: Share of the uniform distribution in latent states and discrete actions.
        bins: N.

    Attributes:
        world: The parts that predict: encoder, rssm, decoder, reward and going on.
        behaviour: Actor and critic.
        state_size: S; a state is zero before the first step of an episode.
    """

    config_class: Any = DreamerModelConfig
    bins: Tensor

    def __init__(  # noqa: PLR0913 - each is an option of the config
        self, obs_shape: int | Sequence[int], action_shape: int, *, continuous: bool = False,
        deter: int = 256, units: int = 256, layers: int = 1, cnn_depth: int = 24, groups: int = 32,
        classes: int = 32, uniform: float = 0.01, bins: int = 255,
    ) -> None:  # fmt: skip
        super().__init__()
        sizes = (obs_shape,) if isinstance(obs_shape, int) else tuple(obs_shape)
        self._image = channels_first(sizes) if len(sizes) == 3 else None
        self._transposed = self._image is not None and self._image != sizes
        self.continuous, self.action_size, self._uniform = continuous, action_shape, uniform
        features = deter + groups * classes
        if self._image is None:
            encoder: VectorEncoder | ImageEncoder = VectorEncoder(prod(sizes), units, layers)
            out: nn.Module = output_layer(units, prod(sizes))
            decoder: nn.Module = nn.Sequential(mlp(features, units, layers), out)
        else:
            encoder = ImageEncoder(self._image, cnn_depth)
            decoder = ImageDecoder(features, self._image, cnn_depth)
        parts: dict[str, nn.Module] = {
            "encoder": encoder,
            "rssm": RSSM(encoder.features, action_shape, deter, units, groups, classes, uniform),
            "decoder": decoder,
            "reward": _head(features, units, layers, bins, 0.0),
            "going": _head(features, units, layers, 1, 1.0),
        }
        self.world = nn.ModuleDict(parts)
        outputs = 2 * action_shape if continuous else action_shape
        actor = _head(features, units, layers, outputs, 0.01)
        critic = _head(features, units, layers, bins, 0.0)
        self.behaviour = nn.ModuleDict({"actor": actor, "critic": critic})
        self.register_buffer("bins", exponential_bins(bins), persistent=False)
        self.state_size = features + action_shape

    @property
    def sees_images(self) -> bool:
        """Whether observations are images."""
        return self._image is not None

    @property
    def rssm(self) -> RSSM:
        """The latent states."""
        found = self.world["rssm"]
        assert isinstance(found, RSSM)
        return found

    # ---- SupportsLatent

    def initial(self, count: int) -> LatentState:
        """Returns the states [B, ...] before the first observation of an episode."""
        return self.rssm.initial(count)

    def observe(self, embed: Tensor, action: Tensor, state: LatentState) -> Observed:
        """Follows sequences that were seen; see `SupportsLatent`."""
        return self.rssm.observe(embed, action, state)

    def imagine(self, state: LatentState, actor: Any, horizon: int) -> Imagined:
        """Predicts what an actor would do; see `SupportsLatent`."""
        return self.rssm.imagine(state, actor, horizon)

    # ---- acting

    def act(
        self, obs: Tensor, hidden: Tensor | None = None, uniform: Tensor | None = None,
        noise: Tensor | None = None,
    ) -> Columns:  # fmt: skip
        """Takes observations in and chooses actions.

        Args:
            obs: [B, ...].
            hidden: float32 [B, S]; what is kept of each environment; None: zeros.
            uniform: float32 [B, G] in [0, 1), to draw latent states by; None: the most probable.
            noise: To draw actions by: float32 [B, 1] in [0, 1), or [B, A] of a standard normal
                distribution for continuous ones; None: the best ones.

        Returns:
            `action`: int64 [B], or float32 [B, A] in [-1, 1]; `logit` [B, A], or `mean` and `std`;
            `hidden`: [B, S] after the step.
        """
        state, chosen, output = self._acted(obs, hidden, uniform, noise)
        return {**output, "hidden": torch.cat([*state, chosen], -1)}

    def forward(
        self, obs: Tensor, hidden: Tensor | None = None, uniform: Tensor | None = None,
        noise: Tensor | None = None,
    ) -> Columns:  # fmt: skip
        """Computes what `act` does, and all that is predicted.

        Returns:
            The outputs of `act`; `value` and `reward` [B], `going` [B] (probability that the
            episode goes on), `reconstruction` (`decode`), `prior` [B, G, C], and the logits of
            bins `value_logit` and `reward_logit` [B, N].
        """
        state, chosen, output = self._acted(obs, hidden, uniform, noise)
        features = torch.cat(state, -1)
        reward, value = self.world["reward"](features), self.behaviour["critic"](features)
        return {
            **output,
            "hidden": torch.cat([*state, chosen], -1),
            "value": two_hot_mean(value, self.bins),
            "value_logit": value,
            "reward": two_hot_mean(reward, self.bins),
            "reward_logit": reward,
            "going": torch.sigmoid(self.world["going"](features)).squeeze(-1),
            "reconstruction": self.decode(features),
            "prior": self.rssm.prior(state.deter),
        }

    def _acted(
        self, obs: Tensor, hidden: Tensor | None, uniform: Tensor | None, noise: Tensor | None
    ) -> tuple[LatentState, Tensor, Columns]:
        """Returns the next states, the actions as the world model takes them, and the outputs."""
        state, action = self.split(self._zeros(len(obs)) if hidden is None else hidden)
        state, _ = self.rssm.step(state, action, self.encode(obs), uniform)
        actor = self.behaviour["actor"](torch.cat(state, -1))
        chosen = self.sample(actor, noise)
        if self.continuous:
            mean, std = self.gaussian(actor)
            return state, chosen, {"action": chosen, "mean": mean, "std": std}
        log_prob = unimix(actor, self._uniform).log()
        return state, chosen.detach(), {"action": chosen.argmax(-1), "logit": log_prob}

    def _zeros(self, count: int) -> Tensor:
        return self.rssm.gates.weight.new_zeros(count, self.state_size)

    def split(self, hidden: Tensor) -> tuple[LatentState, Tensor]:
        """Returns the latent state and the last action of what is kept, [..., S]."""
        rssm = self.rssm
        deter, stoch, action = hidden.split([rssm.deter, rssm.stoch, self.action_size], -1)
        return LatentState(deter, stoch), action

    # ---- observations

    def scaled(self, obs: Tensor) -> Tensor:
        """Returns what is encoded and predicted: [B, P] as given, or images in [-0.5, 0.5].

        Images of bytes are divided by 255; channels come first.
        """
        if self._image is None:
            return obs.reshape(len(obs), -1).float()
        obs = obs.permute(0, 3, 1, 2) if self._transposed else obs
        return obs.float() / 255 - 0.5 if obs.dtype == torch.uint8 else obs.float() - 0.5

    def encode(self, obs: Tensor) -> Tensor:
        """Computes features [B, E] of observations [B, ...]."""
        found: Tensor = self.world["encoder"](self.scaled(obs))
        return found

    def decode(self, features: Tensor) -> Tensor:
        """Predicts observations from features [B, F]: symlog vectors, or images as `scaled`."""
        found: Tensor = self.world["decoder"](features)
        return found

    # ---- actions, by the outputs of the actor [..., A], or [..., 2 A] of continuous ones

    def gaussian(self, actor: Tensor) -> tuple[Tensor, Tensor]:
        """Returns mean and standard deviation, [..., A], of continuous actions."""
        mean, raw = actor.chunk(2, -1)
        std = (_MOST_STD - _LEAST_STD) * torch.sigmoid(raw + 2) + _LEAST_STD
        return torch.tanh(mean), std

    def sample(self, actor: Tensor, noise: Tensor | None) -> Tensor:
        """Chooses actions: one-hot, or numbers that may exceed [-1, 1]; [..., A]; see `act`."""
        if self.continuous:
            mean, std = self.gaussian(actor)
            return mean if noise is None else mean + std * noise
        uniform = None if noise is None else noise.squeeze(-1)
        return categorical_sample(unimix(actor, self._uniform), uniform)

    def log_prob(self, actor: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Computes log-probabilities of actions, as from `sample`, and entropies: [...] each."""
        if self.continuous:
            mean, std = self.gaussian(actor)
            return gaussian_log_prob(action, mean, std), gaussian_entropy(std)
        log_prob = unimix(actor, self._uniform).log()
        return (log_prob * action).sum(-1), -(log_prob.exp() * log_prob).sum(-1)


def _head(features: int, units: int, layers: int, outputs: int, scale: float) -> nn.Sequential:
    """Returns an MLP with a linear output, whose first weights are multiplied by `scale`."""
    return nn.Sequential(mlp(features, units, layers), output_layer(units, outputs, scale))
