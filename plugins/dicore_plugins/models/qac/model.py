"""Actor and Q networks for continuous actions: of SAC, TD3 and DDPG.

Shapes: B observations, K ready environments, A dimensions of an action, E Q networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dicore.errors import ConfigError
from dicore_plugins.models.encoders.ensemble import EnsembleMLP
from dicore_plugins.models.encoders.mlp import MLP, ActivationName
from dicore_plugins.models.encoders.observation import ObsEncoder
from dicore_plugins.models.qac.config import QACConfig
from dicore_plugins.models.shapes import Part

LOG_STD = (-20.0, 2.0)
"""Range of log standard deviations."""


class QAC(nn.Module):
    """Actor and E Q networks over the same observations; actions are in [-1, 1].

    Args:
        obs_shape: An int or 1-tuple; unused if `obs_parts` is given.
        action_shape: A.
        stochastic: The actor has a mean and a log standard deviation; False: a mean only.
        num_critics: E.
        actor_hidden_size_list: Units of each hidden layer of the actor.
        critic_hidden_size_list: Units of each hidden layer of each Q network.
        activation: Activation function of the hidden layers.
        obs_parts: Leaves of a nested or categorical observation; None: one numeric array.

    Raises:
        ConfigError: a shape is unsupported or missing.
    """

    config_class = QACConfig

    def __init__(
        self,
        obs_shape: int | Sequence[int] | None,
        action_shape: int | None,
        *,
        stochastic: bool = True,
        num_critics: int = 2,
        actor_hidden_size_list: Sequence[int] = (256, 256),
        critic_hidden_size_list: Sequence[int] = (256, 256),
        activation: ActivationName = "relu",
        obs_parts: Sequence[Part] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(action_shape, int):
            raise ConfigError(
                f"model.action_shape must be the number of action values, got {action_shape!r}"
            )
        self.encode = ObsEncoder(obs_shape, obs_parts)
        if self.encode.learned:
            raise ConfigError(f"model.obs_shape must be that of a vector, got {obs_shape!r}")
        self.stochastic = stochastic
        features, outputs = self.encode.features, action_shape * (2 if stochastic else 1)
        self.actor = MLP((features, *actor_hidden_size_list, outputs), activation)
        sizes = (features + action_shape, *critic_hidden_size_list, 1)
        self.critic = EnsembleMLP(num_critics, sizes, activation)

    def forward(self, obs: Any) -> dict[str, Tensor]:
        """Computes the distribution of actions, and the Q values of its squashed mean.

        Args:
            obs: [B, ...], or a tree of these.

        Returns:
            `mean` and (stochastic) `log_std` float32 [B, A], before squashing by tanh; `q_value`
            float32 [B, E].
        """
        output = self.policy(obs)
        return {**output, "q_value": self.q(obs, output["mean"].tanh()).T}

    def policy(self, obs: Any) -> dict[str, Tensor]:
        """Computes `mean` and `log_std` only."""
        x = self.actor.forward(self.encode.forward(obs))
        if not self.stochastic:
            return {"mean": x}
        mean, log_std = x.chunk(2, -1)
        return {"mean": mean, "log_std": log_std.clamp(*LOG_STD)}

    def q(self, obs: Any, action: Tensor, *, frozen: bool = False) -> Tensor:
        """Computes the Q values of actions in [-1, 1]: float32 [E, B].

        Args:
            obs: [B, ...], or a tree of these.
            action: float32 [B, A].
            frozen: The parameters get no gradient; `action` does.
        """
        x = torch.cat((self.encode.forward(obs), action), -1)
        return self.critic.forward(x, frozen=frozen).squeeze(-1)

    def act_numpy(self) -> Callable[[Any], dict[str, Any]] | None:
        """Returns the NumPy form of `policy`, on views of the parameters, or None."""
        encode, actor = self.encode.by_numpy(), self.actor.by_numpy()
        first = next(self.parameters())
        pointer = first.data_ptr()
        if encode is None or actor is None:
            return None

        def act(obs: Any) -> dict[str, Any]:
            nonlocal actor, pointer
            if first.data_ptr() != pointer:
                actor, pointer = self.actor.by_numpy(), first.data_ptr()
            assert actor is not None, "the parameters left the CPU"
            x = actor(encode(obs))
            if not self.stochastic:
                return {"mean": x}
            mean, log_std = np.split(x, 2, 1)
            return {"mean": mean, "log_std": log_std.clip(*LOG_STD)}

        return act
