"""Actor and Q networks for discrete actions: of discrete SAC.

Shapes: B observations, A actions, E Q networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from dicore_plugins.models.encoders.ensemble import EnsembleMLP
from dicore_plugins.models.encoders.mlp import MLP, ActivationName, Array
from dicore_plugins.models.qac.config import DiscreteSACModelConfig
from dicore_plugins.models.qac.model import act_by, count_of, vector_encoder
from dicore_plugins.models.shapes import Part

__all__ = ["DiscreteQAC"]


class DiscreteQAC(nn.Module):
    """Actor and E Q networks over the same observations, each with one output per action.

    Args:
        obs_shape: An int or 1-tuple; unused if `obs_parts` is given.
        action_shape: A.
        num_critics: E.
        actor_hidden_size_list: Units of each hidden layer of the actor.
        critic_hidden_size_list: Units of each hidden layer of each Q network.
        activation: Activation function of the hidden layers.
        obs_parts: Leaves of a nested or categorical observation; None: one numeric array.

    Raises:
        ConfigError: a shape is unsupported or missing.
    """

    config_class = DiscreteSACModelConfig

    def __init__(
        self,
        obs_shape: int | Sequence[int] | None,
        action_shape: int | None,
        *,
        num_critics: int = 2,
        actor_hidden_size_list: Sequence[int] = (256, 256),
        critic_hidden_size_list: Sequence[int] = (256, 256),
        activation: ActivationName = "relu",
        obs_parts: Sequence[Part] | None = None,
    ) -> None:
        super().__init__()
        actions = count_of(action_shape, "action_shape", "actions")
        self.encode = vector_encoder(obs_shape, obs_parts)
        features, form = self.encode.features, {"initial_weights": "uniform"}
        self.actor = MLP((features, *actor_hidden_size_list, actions), activation, **form)  # type: ignore[arg-type]
        sizes = (features, *critic_hidden_size_list, actions)
        self.critic = EnsembleMLP(num_critics, sizes, activation, **form)  # type: ignore[arg-type]

    def forward(self, obs: Any) -> dict[str, Tensor]:
        """Computes the logits of the actions, and their Q values.

        Args:
            obs: [B, ...], or a tree of these.

        Returns:
            `logit` float32 [B, A]; `q_value` float32 [B, E, A].
        """
        return {**self.policy(obs), "q_value": self.q(obs).transpose(0, 1)}

    def policy(self, obs: Any) -> dict[str, Tensor]:
        """Computes `logit` only."""
        return {"logit": self.actor.forward(self.encode.forward(obs))}

    def q(self, obs: Any, *, frozen: bool = False) -> Tensor:
        """Computes the Q values of all actions: float32 [E, B, A].

        Args:
            obs: [B, ...], or a tree of these.
            frozen: The parameters get no gradient.
        """
        return self.critic.forward(self.encode.forward(obs), frozen=frozen)

    def act_numpy(self) -> Callable[[Any], Array] | None:
        """Returns the NumPy form of `policy`, on views of the parameters, or None."""
        return act_by((self.actor,), self.actor.by_numpy, self.encode.by_numpy())
