"""MADDPG (Lowe et al. 2017, arXiv:1706.02275) and MATD3 (Ackermann et al. 2019, arXiv:1910.01465).

Each agent has an actor mu_a that sees its own observation, and a critic Q_a that sees the state s
(or all observations) and the actions of all:

    V'_a(s') = min_e Q'_{a,e}(s', u'_1 .. u'_A),  u'_b = clip(mu'_b(o'_b) + clip(noise))
    L(mu_a)  = -Q_{a,1}(s, u_1 .. mu_a(o_a) .. u_A)

The other actions in the loss of an actor are those of the sample. MADDPG is MATD3 with one Q
network, without noise in targets and without delay.

Discrete actions are one-hot samples of softmax(logits), argmax(logits + G) with Gumbel noise G. The
actors learn through softmax((logits + G) / temperature), the straight-through estimator of the
paper's Gumbel-softmax (Jang et al. 2017, arXiv:1611.01144), with a small penalty on their logits;
the noise smooths the targets.

Shapes: B samples, A agents, k numbers of an action, n actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Tree
from dicore_agents.models.observations import weight_of_acting
from dicore_agents.policies.continuous.base import (
    DiscreteTeamPolicy,
    TeamQACPolicy,
    one_hot,
)
from dicore_agents.policies.continuous.config import MADDPGConfig
from dicore_plugins.functional import legal
from dicore_plugins.policies import Results, TD3Policy

__all__ = ["DiscreteMADDPGPolicy", "MADDPGPolicy"]


class MADDPGPolicy(TeamQACPolicy, TD3Policy):
    """Deterministic actors with Gaussian exploration noise, for continuous actions."""

    config_class: ClassVar[type[PolicyConfig]] = MADDPGConfig
    _cfg: MADDPGConfig

    def _update_actor(self, batch: Batch) -> Results:
        if self._update_count % self._cfg.learn.actor_update_freq:
            return {"actor_loss": None}
        return super()._update_actor(self._remembered(batch))

    def _actor_loss(self, batch: Batch, action: Tensor) -> Tensor:
        """Computes the loss of the actors, a scalar, from their actions [B, A, k]."""
        value = self._model.q(
            batch["obs"], self._unit_action(batch["action"]), action, frozen=True
        )[0]
        factor = weight_of_acting(batch["obs"])
        loss: Tensor = -(value if factor is None else value * factor).mean()
        return loss


class DiscreteMADDPGPolicy(DiscreteTeamPolicy, MADDPGPolicy):  # type: ignore[misc] # no noise
    """Actors that sample one of n actions."""

    def _next_action(self, next_obs: Tree) -> Tensor:
        """Samples one-hot actions of the target network: float32 [B, A, n]."""
        logit = legal(self._target_model.policy(next_obs)["logit"], next_obs)
        return one_hot(logit + self._gumbel(logit))

    def _update_actor(self, batch: Batch) -> Results:
        if self._update_count % self._cfg.learn.actor_update_freq:
            return {"actor_loss": None}
        batch = self._remembered(batch)
        learn, obs = self._cfg.learn, batch["obs"]
        raw = self._model.policy(obs)["logit"]
        logit = legal(raw, obs)
        noisy = logit + self._gumbel(logit)
        smooth = F.softmax(noisy / learn.gumbel_temperature, -1)
        loss = self._actor_loss(batch, one_hot(noisy) + smooth - smooth.detach())
        squares, factor = raw.square().mean(-1), weight_of_acting(obs)
        penalty = learn.logit_penalty * (squares if factor is None else squares * factor).mean()
        self._step("actor", loss + penalty)
        self._move_target("actor", "critic")
        return {"actor_loss": loss.detach()}

    def _get_setting_collect(self, command_info: Mapping[str, int]) -> dict[str, float]:
        """Returns nothing: the actors explore by sampling."""
        return {}
