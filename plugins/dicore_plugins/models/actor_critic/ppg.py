"""Network of phasic policy gradient (Cobbe et al. 2020, arXiv:2009.04416, section 2).

The policy network has a second head, the auxiliary value, which trains its encoder in the auxiliary
phase. The value that advantages are computed from has a network of its own.

Shapes: B observations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dicore.data import Columns, Tree
from dicore_plugins.models.actor_critic.ppg_config import PPGModelConfig
from dicore_plugins.models.actor_critic.vac import VAC, orthogonal
from dicore_plugins.models.encoders.mlp import MLP, ActivationName
from dicore_plugins.models.encoders.observation import ObsEncoder
from dicore_plugins.models.modes import Mode, check_mode
from dicore_plugins.models.running_norm import RunningNorm
from dicore_plugins.models.shapes import Part


class PPGNet(nn.Module):
    """Policy with an auxiliary value, and a separate value.

    Args:
        obs_shape: See `VAC`.
        action_shape: See `VAC`.
        obs_parts: See `VAC`.
        encoder_hidden_size_list: Units of the hidden layers, of each of the two networks.
        critic_head_hidden_size_list: Units of further hidden layers of both values.
        activation: Activation function of the hidden layers.
        layer_norm: Normalise each hidden layer before its activation function.
        **options: Further options of `VAC`, for the policy network.

    Attributes:
        policy: The policy network; its `value` is the auxiliary one.
        critic: The layers of the value.

    Raises:
        ConfigError: a shape is unsupported or missing.
    """

    config_class = PPGModelConfig

    def __init__(
        self,
        obs_shape: int | Sequence[int] | None,
        action_shape: int | Sequence[int] | None,
        *,
        obs_parts: Sequence[Part] | None = None,
        encoder_hidden_size_list: Sequence[int] = (64, 64),
        critic_head_hidden_size_list: Sequence[int] = (),
        activation: ActivationName = "tanh",
        layer_norm: bool = False,
        **options: Any,
    ) -> None:
        super().__init__()
        form: dict[str, Any] = {"activation": activation, "layer_norm": layer_norm}
        options["share_encoder"] = True
        self.policy = VAC(
            obs_shape,
            action_shape,
            obs_parts=obs_parts,
            encoder_hidden_size_list=encoder_hidden_size_list,
            critic_head_hidden_size_list=critic_head_hidden_size_list,
            **form,
            **options,
        )
        conv = options.get("conv", "auto")
        has_cnn = self.policy.encode.learned
        self.critic_encode = ObsEncoder(obs_shape, obs_parts, conv=conv) if has_cnn else None
        sizes = (*encoder_hidden_size_list, *critic_head_hidden_size_list, 1)
        self.critic = MLP((self.policy.encode.features, *sizes), **form)
        if options.get("initial_weights") != "uniform":
            orthogonal(self.critic, 1.0)

    @property
    def encode(self) -> ObsEncoder:
        """Encoder of the policy network."""
        return self.policy.encode

    @property
    def obs_norm(self) -> RunningNorm | None:
        """Statistics of the observations, or None; whoever trains updates them."""
        return self.policy.obs_norm

    @property
    def value_norm(self) -> RunningNorm | None:
        """Statistics of the returns, or None; whoever trains updates them."""
        return self.policy.value_norm

    def forward(
        self, obs: Tree, hidden: Tree = None, mode: Mode = "compute_actor_critic"
    ) -> Columns:
        """Computes the distribution of actions and the value; see `VAC.forward`."""
        check_mode(mode)
        if mode == "compute_critic":
            return {"value": self.v(obs)}
        output = self.policy.forward(obs, mode="compute_actor")
        if mode != "compute_actor":
            output["value"] = self.v(obs)
        return output

    def auxiliary(self, obs: Tree) -> Columns:
        """Computes the outputs of `forward` and `auxiliary_value`, float32 [B]."""
        output = self.policy.forward(obs)
        return {**output, "auxiliary_value": output["value"], "value": self.v(obs)}

    def v(self, obs: Tree) -> Tensor:
        """Computes only the `value` of `forward`."""
        encode = self.policy.encode if self.critic_encode is None else self.critic_encode
        value = self.critic.forward(encode.forward(obs)).squeeze(1)
        norm = self.value_norm
        return value if norm is None else torch.addcmul(norm.mean, value, norm.std)

    def act_numpy(self) -> Callable[[Tree], dict[str, Any]] | None:
        """Returns the NumPy forward pass of the actor; see `VAC.act_numpy`."""
        return self.policy.act_numpy()
