"""Network of behavioural cloning from observation (Torabi et al. 2018, arXiv:1805.01954).

Shapes: B samples, A actions or dimensions, F features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dicore.data import Columns, Tree
from dicore_plugins.models.actor_critic.vac import VAC
from dicore_plugins.models.encoders.mlp import MLP, ActivationName
from dicore_plugins.models.encoders.observation import ObsEncoder
from dicore_plugins.models.imitation.bco_config import BCOModelConfig
from dicore_plugins.models.running_norm import RunningNorm
from dicore_plugins.models.shapes import Part

__all__ = ["BCONet"]


class BCONet(VAC):
    """Policy network with an inverse model, p(a|s, s').

    The inverse model sees the features of s and the difference to those of s', normalised, since
    one step changes little.

    Args:
        obs_shape: See `VAC`.
        action_shape: See `VAC`.
        inverse_hidden_size_list: Units of each hidden layer of the inverse model.
        obs_parts: See `VAC`.
        conv: See `VAC`.
        activation: See `VAC`.
        layer_norm: See `VAC`.
        **options: Further options of `VAC`, for the policy network.

    Raises:
        ConfigError: a shape is unsupported or missing.
    """

    config_class = BCOModelConfig

    def __init__(
        self,
        obs_shape: int | Sequence[int] | None,
        action_shape: int | Sequence[int] | None,
        *,
        inverse_hidden_size_list: Sequence[int] = (64, 64),
        obs_parts: Sequence[Part] | None = None,
        conv: str = "auto",
        activation: ActivationName = "tanh",
        layer_norm: bool = False,
        **options: Any,
    ) -> None:
        form: dict[str, Any] = {"activation": activation, "layer_norm": layer_norm}
        seen: dict[str, Any] = {"obs_parts": obs_parts, "conv": conv}
        super().__init__(obs_shape, action_shape, **seen, **form, **options)
        self.inverse_encode = ObsEncoder(obs_shape, obs_parts, conv=conv)
        features = self.inverse_encode.features
        self.pair_norm = RunningNorm(2 * features)
        last: Any = self.actor.layers[-1]
        self.inverse_mlp = MLP((2 * features, *inverse_hidden_size_list, last.out_features), **form)
        std = self.log_std
        self.inverse_log_std = None if std is None else nn.Parameter(torch.zeros_like(std))

    def inverse(self, obs: Tree, next_obs: Tree, *, learns: Tensor | None = None) -> Columns:
        """Computes the distribution of the action between two observations.

        Args:
            obs: [B, ...]; see `forward`.
            next_obs: [B, ...].
            learns: bool [B]; samples whose statistics are added to those that normalise.

        Returns:
            `logit`, or `mean` and `log_std`, or all three, as of `forward`.
        """
        before = self.inverse_encode.forward(obs)
        pair = torch.cat((before, self.inverse_encode.forward(next_obs) - before), 1)
        if learns is not None and bool(learns.any()):
            self.pair_norm.update(pair.detach()[learns])
        output = self._distribution(self.inverse_mlp.forward(self.pair_norm.forward(pair)))
        if self.inverse_log_std is not None:
            output["log_std"] = self.inverse_log_std.expand_as(output["mean"])
        return output
