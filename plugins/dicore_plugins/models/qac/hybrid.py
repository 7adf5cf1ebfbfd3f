"""The networks of P-DQN and PA-DDPG: arguments of discrete actions, and Q values with them.

Shapes: B observations, K discrete actions, A arguments, E Q networks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dicore.errors import ConfigError
from dicore.values import Tree
from dicore_plugins.models.encoders.mlp import Array, applies
from dicore_plugins.models.qac.config import PADDPGModelConfig, PDQNModelConfig, args_mask_problem
from dicore_plugins.models.qac.model import ActorQNet, act_by, count_of

__all__ = ["PADDPG", "PDQN"]


class PDQN(ActorQNet):
    """An actor for the arguments in [-1, 1], and a Q network of all actions with arguments.

    Xiong et al. 2018, arXiv:1810.06394, section 3. Q(s, k, x) depends on all arguments x, also on
    those of other actions; with `args_mask` it is Q_k(s, m_k * x), by one pass for each action k
    (MP-DQN; Bester et al. 2019, arXiv:1905.04388, section 4).

    Args:
        obs_shape: An int or 1-tuple; unused if `obs_parts` is given.
        action_shape: K.
        args_shape: A.
        args_mask: m, 0 or 1 [K, A]: the arguments of each action; None: one pass with all.
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
        args_mask: Sequence[Sequence[int]] | None = None,
        **form: Any,
    ) -> None:
        actions = count_of(action_shape, "action_shape", "discrete actions")
        args = count_of(args_shape, "args_shape", "continuous arguments")
        super().__init__(obs_shape, (args, args, actions), **form)
        if problem := args_mask_problem(args_mask, actions, args):
            raise ConfigError(f"model.args_mask {problem}")
        mask = None if args_mask is None else torch.tensor(args_mask, dtype=torch.float32)
        self.args_mask: Tensor | None
        self.register_buffer("args_mask", mask, persistent=False)

    def both(self, obs: Tree) -> dict[str, Tensor]:
        """Computes the arguments and the Q values of all actions with them.

        Args:
            obs: [B, ...], or a tree of these.

        Returns:
            `action_args` float32 [B, A], in [-1, 1]; `logit` float32 [B, K], the Q values.
        """
        output = self.policy(obs)
        return {**output, **self.critic_of(obs, output)}

    def critic_of(self, obs: Tree, action: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes `logit` with the `action_args` [B, A] of an action, which are in [-1, 1]."""
        return {"logit": self.q(obs, action["action_args"])}

    def policy(self, obs: Tree) -> dict[str, Tensor]:
        """Computes `action_args` only."""
        return {"action_args": self.actor.forward(self.encode.forward(obs)).tanh()}

    def q(self, obs: Tree, args: Tensor, *, frozen: bool = False) -> Tensor:
        """Computes the Q values of all actions with arguments: float32 [B, K].

        Args:
            obs: [B, ...], or a tree of these.
            args: float32 [B, A], in [-1, 1].
            frozen: The parameters get no gradient; `args` does.
        """
        x, mask = self.encode.forward(obs), self.args_mask
        if mask is None:
            return self.critic.forward(torch.cat((x, args), -1), frozen=frozen).squeeze(0)
        x = torch.cat((x.repeat_interleave(len(mask), 0), (args[:, None] * mask).flatten(0, 1)), -1)
        q = self.critic.forward(x, frozen=frozen).view(len(args), *mask.shape[:1] * 2)
        return q.diagonal(dim1=1, dim2=2)

    def act_numpy(self) -> Callable[[Tree], dict[str, Array]] | None:
        """Returns the NumPy form of `both`, on views of the parameters, or None."""
        if not applies(type(self), "act_numpy", "forward", "both", "critic_of", "policy", "q"):
            return None
        return act_by((self.actor, self.critic), self._views, self.encode.by_numpy())

    def _views(self) -> Callable[[Array], dict[str, Array]] | None:
        actor, critic = self.actor.by_numpy(), self.critic.by_numpy()
        if actor is None or critic is None:
            return None

        mask = None if self.args_mask is None else self.args_mask.numpy()

        def forward(x: Array) -> dict[str, Array]:
            args = np.tanh(actor(x))
            if mask is None:
                return {"action_args": args, "logit": critic(np.concatenate((x, args), 1))}
            own = (args[:, None] * mask).reshape(-1, args.shape[1])
            q = critic(np.concatenate((x.repeat(len(mask), 0), own), 1))
            q = q.reshape(len(args), len(mask), -1).diagonal(axis1=1, axis2=2)
            return {"action_args": args, "logit": q}

        return forward


class PADDPG(ActorQNet):
    """An actor of the scores and arguments of all discrete actions, and Q networks of both.

    Hausknecht and Stone 2016, arXiv:1511.04143, section 4. The outputs of the actor are linear;
    scores and arguments are the nearest values in [-1, 1].

    Args:
        obs_shape: An int or 1-tuple; unused if `obs_parts` is given.
        action_shape: K.
        args_shape: A.
        **form: Further arguments of `ActorQNet`.

    Raises:
        ConfigError: a shape is unsupported or missing.
    """

    config_class = PADDPGModelConfig

    def __init__(
        self,
        obs_shape: int | Sequence[int] | None,
        action_shape: int | None,
        args_shape: int | None,
        **form: Any,
    ) -> None:
        actions = count_of(action_shape, "action_shape", "discrete actions")
        both = actions + count_of(args_shape, "args_shape", "continuous arguments")
        super().__init__(obs_shape, (both, both, 1), **form)
        self.actions = actions

    def both(self, obs: Tree) -> dict[str, Tensor]:
        """Computes `policy`, and `q_value` float32 [B, E] of its scores and arguments.

        Args:
            obs: [B, ...], or a tree of these.
        """
        output = self.policy(obs)
        return {**output, **self.critic_of(obs, output)}

    def critic_of(self, obs: Tree, action: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Computes `q_value` float32 [B, E] of `logit` [B, K] and `action_args` [B, A]."""
        return {"q_value": self.q(obs, action["logit"], action["action_args"]).T}

    def policy(self, obs: Tree) -> dict[str, Tensor]:
        """Computes scores and arguments in [-1, 1]: `logit` [B, K] and `action_args` [B, A]."""
        scores, args = self.linear(obs)
        return {"logit": scores.clamp(-1, 1), "action_args": args.clamp(-1, 1)}

    def linear(self, obs: Tree) -> tuple[Tensor, Tensor]:
        """Computes the outputs of the actor before they are clipped: [B, K] and [B, A]."""
        x = self.actor.forward(self.encode.forward(obs))
        return x[:, : self.actions], x[:, self.actions :]

    def q(self, obs: Tree, scores: Tensor, args: Tensor, *, frozen: bool = False) -> Tensor:
        """Computes the Q values: float32 [E, B].

        Args:
            obs: [B, ...], or a tree of these.
            scores: float32 [B, K], in [-1, 1].
            args: float32 [B, A], in [-1, 1].
            frozen: The parameters get no gradient; `scores` and `args` do.
        """
        x = torch.cat((self.encode.forward(obs), scores, args), -1)
        return self.critic.forward(x, frozen=frozen).squeeze(-1)

    def act_numpy(self) -> Callable[[Tree], dict[str, Array]] | None:
        """Returns the NumPy form of `policy`, on views of the parameters, or None."""
        if not applies(type(self), "act_numpy", "forward", "policy", "linear"):
            return None
        return act_by((self.actor,), self._views, self.encode.by_numpy())

    def _views(self) -> Callable[[Array], dict[str, Array]] | None:
        actor = self.actor.by_numpy()
        if actor is None:
            return None

        def forward(x: Array) -> dict[str, Array]:
            logit, args = np.split(actor(x).clip(-1, 1), [self.actions], 1)
            return {"logit": logit, "action_args": args}

        return forward
