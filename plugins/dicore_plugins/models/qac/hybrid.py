"""The networks of P-DQN: arguments of discrete actions, and Q values with them.

Shapes: B observations, K discrete actions, A arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dicore_plugins.models.encoders.mlp import Array, applies
from dicore_plugins.models.qac.config import PDQNModelConfig
from dicore_plugins.models.qac.model import ActorQNet, act_by, count_of

__all__ = ["PDQN"]


class PDQN(ActorQNet):
    """An actor for the arguments in [-1, 1], and a Q network of all actions with arguments.

    Xiong et al. 2018, arXiv:1810.06394, section 3.

    Args:
        obs_shape: An int or 1-tuple; unused if `obs_parts` is given.
        action_shape: K.
        args_shape: A.
        **form: Further arguments of `ActorQNet`.

    Raises:
        ConfigError: a shape is unsupported or missing.
    """

    config_class = PDQNModelConfig

    def __init__(
        self,
        obs_shape: int | Sequence[int] | None,
        action_shape: int | None,
        args_shape: int | None,
        **form: Any,
    ) -> None:
        actions = count_of(action_shape, "action_shape", "discrete actions")
        args = count_of(args_shape, "args_shape", "continuous arguments")
        super().__init__(obs_shape, (args, args, actions), **form)

    def forward(self, obs: Any) -> dict[str, Tensor]:
        """Computes the arguments and the Q values of all actions with them.

        Args:
            obs: [B, ...], or a tree of these.

        Returns:
            `action_args` float32 [B, A], in [-1, 1]; `logit` float32 [B, K], the Q values.
        """
        args = self.policy(obs)["action_args"]
        return {"action_args": args, "logit": self.q(obs, args)}

    def policy(self, obs: Any) -> dict[str, Tensor]:
        """Computes `action_args` only."""
        return {"action_args": self.actor.forward(self.encode.forward(obs)).tanh()}

    def q(self, obs: Any, args: Tensor, *, frozen: bool = False) -> Tensor:
        """Computes the Q values of all actions with arguments: float32 [B, K].

        Args:
            obs: [B, ...], or a tree of these.
            args: float32 [B, A], in [-1, 1].
            frozen: The parameters get no gradient; `args` does.
        """
        x = torch.cat((self.encode.forward(obs), args), -1)
        return self.critic.forward(x, frozen=frozen).squeeze(0)

    def act_numpy(self) -> Callable[[Any], dict[str, Array]] | None:
        """Returns the NumPy form of `forward`, on views of the parameters, or None."""
        if not applies(type(self), "act_numpy", "forward", "policy", "q"):
            return None
        return act_by((self.actor, self.critic), self._views, self.encode.by_numpy())

    def _views(self) -> Callable[[Array], dict[str, Array]] | None:
        actor, critic = self.actor.by_numpy(), self.critic.by_numpy()
        if actor is None or critic is None:
            return None

        def forward(x: Array) -> dict[str, Array]:
            args = np.tanh(actor(x))
            return {"action_args": args, "logit": critic(np.concatenate((x, args), 1))}

        return forward
