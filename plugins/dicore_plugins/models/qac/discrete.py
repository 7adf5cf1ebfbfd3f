"""Actor and Q networks for discrete actions: of discrete SAC.

Shapes: B observations, A actions, E Q networks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from dicore.values import Tree
from dicore_plugins.models.encoders.mlp import Array, applies
from dicore_plugins.models.qac.config import DiscreteSACModelConfig
from dicore_plugins.models.qac.model import ActorQNet, act_by, count_of

__all__ = ["DiscreteQAC"]


class DiscreteQAC(ActorQNet):
    """Actor and E Q networks over the same observations, each with one output per action.

    Args:
        obs_shape: An int or 1-tuple; unused if `obs_parts` is given.
        action_shape: A.
        **form: Further arguments of `ActorQNet`.

    Raises:
        ConfigError: a shape is unsupported or missing.
    """

    config_class = DiscreteSACModelConfig

    def __init__(
        self, obs_shape: int | Sequence[int] | None, action_shape: int | None, **form: Any
    ) -> None:
        actions = count_of(action_shape, "action_shape", "actions")
        super().__init__(obs_shape, (actions, 0, actions), **{"num_critics": 2, **form})

    def both(self, obs: Tree) -> dict[str, Tensor]:
        """Computes the logits of the actions, and their Q values.

        Args:
            obs: [B, ...], or a tree of these.

        Returns:
            `logit` float32 [B, A]; `q_value` float32 [B, E, A].
        """
        return {**self.policy(obs), **self.critic_of(obs)}

    def critic_of(self, obs: Tree, action: None = None) -> dict[str, Tensor]:
        """Computes `q_value` float32 [B, E, A] of all actions, whatever the action."""
        return {"q_value": self.q(obs).transpose(0, 1)}

    def policy(self, obs: Tree) -> dict[str, Tensor]:
        """Computes `logit` only."""
        return {"logit": self.actor.forward(self.encode.forward(obs))}

    def q(self, obs: Tree, *, frozen: bool = False) -> Tensor:
        """Computes the Q values of all actions: float32 [E, B, A].

        Args:
            obs: [B, ...], or a tree of these.
            frozen: The parameters get no gradient.
        """
        return self.critic.forward(self.encode.forward(obs), frozen=frozen)

    def act_numpy(self) -> Callable[[Tree], Array] | None:
        """Returns the NumPy form of `policy`, on views of the parameters, or None."""
        if not applies(type(self), "act_numpy", "forward", "policy"):
            return None
        return act_by((self.actor,), self._views, self.encode.by_numpy())

    def _views(self) -> Callable[[Array], Array] | None:
        found: Callable[[Array], Array] | None = self.actor.by_numpy()
        return found
