"""Bonuses for what is new: random network distillation and the intrinsic curiosity module.

RND: Burda et al. 2018, arXiv:1810.12894. ICM: Pathak et al. 2017, arXiv:1705.05363.

Shapes: B samples, F features.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from gymnasium.spaces import Dict
from torch import Tensor, nn
from torch.nn import functional

from dicore.config.schema import ComponentConfig
from dicore.data import Batch, State, StateDict, Tree
from dicore_plugins.models.encoders.mlp import MLP
from dicore_plugins.models.encoders.observation import ObsEncoder
from dicore_plugins.models.shapes import observation_options
from dicore_plugins.reward_models.base import EncodedMLP, NetworkRewardModel, encoder_of
from dicore_plugins.reward_models.config import ICMConfig, IntrinsicConfig, RNDConfig
from dicore_plugins.reward_models.return_scale import ReturnScale, origin_of

if TYPE_CHECKING:
    from dicore.interfaces.env import Space


__all__ = ["ICM", "RND", "DistillationNet", "IntrinsicRewardModel", "InverseNet"]

_LIMIT = 10.0
"""Largest normalised bonus."""


class IntrinsicRewardModel(NetworkRewardModel):
    """Base class of reward models that add a bonus, normalised by the spread of its returns.

    Before the first training the bonus is 0. A subclass implements `_make`, `_loss` and `_bonus`.
    """

    config_class: ClassVar[type[ComponentConfig]] = IntrinsicConfig

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._scale = ReturnScale(self._cfg.return_discount)
        self._seen = 0

    @property
    def weight(self) -> float:
        """The present factor of the bonus."""
        decay = self._cfg.weight_decay
        left = 1.0 if decay is None else max(1 - self._seen / decay, 0.0)
        return float(self._cfg.weight * left)

    @property
    def statistics(self) -> dict[str, float]:
        """The loss of the last update, and the spread and the factor of the bonus."""
        found = super().statistics
        return {**found, "bonus_scale": self._scale.value, "weight": self.weight} if found else {}

    def _bonus(self, batch: Mapping[str, Tree]) -> Tensor:
        """Computes the bonus of tensors or arrays, not normalised: float32 [B], without graph."""
        raise NotImplementedError

    def _rewards(self, batch: Mapping[str, Tree]) -> Tensor:
        reward: Tensor = self._tensor(batch["reward"]).float()
        weight = self.weight
        share: float = self._cfg.extrinsic_weight
        if not self._scale.known or not weight:
            return reward * share
        scale = self._scale.value
        bonus = self._bonus(batch).clamp_(max=_LIMIT * scale)
        own = reward if share == 1 else reward * share
        return torch.add(own, bonus, alpha=weight / scale)

    def _see(self, new: Batch) -> None:
        super()._see(new)
        self._seen += len(new)
        with torch.no_grad():
            bonus = self._bonus(new.columns).cpu().numpy()
        self._scale.update(bonus, origin_of(new)[0])  # across episodes, as Burda et al. do

    def state_dict(self) -> StateDict:
        """Returns networks, optimizer, statistics and stored samples."""
        return {**super().state_dict(), "scale": self._scale.state_dict(), "seen": self._seen}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned; training goes on identically."""
        super().load_state_dict(state)
        self._scale.load_state_dict(state["scale"])
        self._seen = int(state["seen"])


class DistillationNet(nn.Module):
    """A fixed random network, and one that predicts its output.

    Args:
        space: Space of the inputs.
        cfg: Section with `hidden_size_list`, `feature_size`, `activation` and `obs_limit`.
    """

    def __init__(self, space: Space, cfg: Any) -> None:
        super().__init__()
        sizes, form = (*cfg.hidden_size_list, cfg.feature_size), cfg.activation
        self.predictor = EncodedMLP(encoder_of(space, cfg.obs_limit), sizes, form)
        self.encoder = own = self.predictor.encoder
        other = encoder_of(space, cfg.obs_limit) if own.learned else own
        self.target = EncodedMLP(other, sizes, form)
        self.target.mlp.requires_grad_(False)
        if own.learned:
            other.requires_grad_(False)
        self._parts = self.predictor, self.target, other is own  # faster than as modules

    def forward(self, obs: Tree) -> Tensor:
        """Returns the mean squared error of each prediction: float32 [B]."""
        predictor, target, shared = self._parts
        x = predictor.encode(obs)
        y = x if shared else target.encode(obs)
        error = predictor.head(x) - target.head(y)
        return error.square().mean(1)


class RND(IntrinsicRewardModel):
    """Random network distillation: the error in predicting a fixed random map of the next state.

    The error is small for states that it was trained on, and stays large for others.
    """

    config_class: ClassVar[type[ComponentConfig]] = RNDConfig
    keys: ClassVar[tuple[str, ...]] = ("next_obs",)

    def _make(self, observation_space: Space, action_space: Space) -> nn.Module:
        return DistillationNet(observation_space, self._cfg)

    def _inputs(self, batch: Mapping[str, Tree]) -> Tree:
        return batch["next_obs"]

    def _bonus(self, batch: Mapping[str, Tree]) -> Tensor:
        bonus: Tensor = self._net.forward(batch["next_obs"])
        return bonus

    def _loss(self, batch: Mapping[str, Tree]) -> Tensor:
        return self._bonus(batch).mean()


class InverseNet(nn.Module):
    """Features of states, and a model that tells the action between two states from them.

    Args:
        space: Space of the observations.
        action_space: Space of the actions.
        cfg: Section with `hidden_size_list`, `feature_size`, `activation` and `obs_limit`.
        encoder: Encoder of the observations; None: it gets its own.
    """

    def __init__(
        self, space: Space, action_space: Space, cfg: Any, encoder: ObsEncoder | None = None
    ) -> None:
        super().__init__()
        hidden, size, form = cfg.hidden_size_list, cfg.feature_size, cfg.activation
        self.encoder = encoder_of(space, cfg.obs_limit) if encoder is None else encoder
        self.features = EncodedMLP(self.encoder, (*hidden, size), form)
        self.action_encoder = encoder_of(Dict(action=action_space), None)
        self.inverse = MLP([2 * size, *hidden, self.action_encoder.features], form)
        parts = observation_options(Dict(action=action_space))["model.obs_parts"]
        self._groups = [
            (group, bool(sizes)) for _, wide, sizes, _ in parts for group in (sizes or (wide,))
        ]

    def embed(self, obs: Tree) -> Tensor:
        """Returns the features of states: float32 [B, F]."""
        features = self.features.forward(obs)
        return functional.layer_norm(features, features.shape[1:])  # else the errors grow with them

    def encode(self, batch: Mapping[str, Tree]) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the features of both states [B, F], and the action as a vector [B, V]."""
        action = self.action_encoder.forward({"action": batch["action"]})
        return self.embed(batch["obs"]), self.embed(batch["next_obs"]), action

    def inverse_error(self, now: Tensor, after: Tensor, action: Tensor) -> Tensor:
        """Returns the mean error in telling the action: cross-entropy, or the squared error."""
        guess = self.inverse.forward(torch.cat([now, after], 1))
        widths = [width for width, _ in self._groups]
        pairs = zip(guess.split(widths, 1), action.split(widths, 1), self._groups, strict=True)
        losses = [
            (functional.cross_entropy if categorical else functional.mse_loss)(out, wanted)
            for out, wanted, (_, categorical) in pairs
        ]
        return torch.stack(losses).mean()


class _ICMNet(InverseNet):
    """The same, with a model that predicts the features of the next state."""

    def __init__(self, space: Space, action_space: Space, cfg: ICMConfig) -> None:
        super().__init__(space, action_space, cfg)
        size, width = cfg.feature_size, self.action_encoder.features
        self.next_features = MLP([size + width, *cfg.hidden_size_list, size], cfg.activation)

    def forward_error(self, now: Tensor, after: Tensor, action: Tensor) -> Tensor:
        """Returns half the squared error in predicting the features of the next state: [B]."""
        guess = self.next_features.forward(torch.cat([now.detach(), action], 1))
        return (guess - after.detach()).square().sum(1).mul(0.5)


class ICM(IntrinsicRewardModel):
    """Intrinsic curiosity: the error in predicting the features of the next state.

    The features are those that tell the action between two states, so that they leave out what the
    agent has no influence on.
    """

    config_class: ClassVar[type[ComponentConfig]] = ICMConfig
    keys: ClassVar[tuple[str, ...]] = ("obs", "action", "next_obs")
    _net: _ICMNet

    def _make(self, observation_space: Space, action_space: Space) -> nn.Module:
        return _ICMNet(observation_space, action_space, self._cfg)

    def _inputs(self, batch: Mapping[str, Tree]) -> Tree:
        return batch["next_obs"]

    def _bonus(self, batch: Mapping[str, Tree]) -> Tensor:
        tensors = {key: self._tensor(batch[key]) for key in self.keys}
        return self._net.forward_error(*self._net.encode(tensors))

    def _loss(self, batch: Mapping[str, Tree]) -> Tensor:
        net = self._net
        share: float = self._cfg.forward_share
        encoded = net.encode(batch)
        forward = net.forward_error(*encoded).mean()
        return (1 - share) * net.inverse_error(*encoded) + share * forward
