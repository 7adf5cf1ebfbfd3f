"""MASAC: soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905) for teams.

Each agent has a stochastic actor pi_a that sees its own observation, a temperature alpha_a, and
critics Q_a that see the state s (or all observations) and the actions of all, as in MADDPG:

    V'_a(s') = min_e Q'_{a,e}(s', u'_1 .. u'_A) - alpha_a log pi_a(u'_a|o'_a),  u'_b ~ pi_b(o'_b)
    L(pi_a)  = alpha_a log pi_a(v|o_a) - min_e Q_{a,e}(s, u_1 .. v .. u_A),  v ~ pi_a(o_a)
    L(alpha_a) = log alpha_a (H(pi_a) - target entropy)

The other actions in the loss of an actor are those of the sample. Critics of discrete actions
value each own action beside those of the others, u_-a, so that expectations over v are exact
(Christodoulou 2019, arXiv:1910.07207):

    V'_a(s') = sum_v pi_a(v|o'_a) (min_e Q'_{a,e}(s', u'_-a, v) - alpha_a log pi_a(v|o'_a))
    L(pi_a)  = -sum_v pi_a(v|o_a) (min_e Q_{a,e}(s, u_-a, v) - alpha_a log pi_a(v|o_a))

Shapes: B samples, A agents, E Q networks, n actions.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Tree
from dicore_agents.models.observations import weight_of_acting
from dicore_agents.policies.continuous.base import (
    DiscreteTeamPolicy,
    TeamQACPolicy,
    one_hot,
)
from dicore_agents.policies.continuous.config import MASACConfig
from dicore_plugins.functional import legal, mask_of, soft_expectation
from dicore_plugins.models import Flat
from dicore_plugins.policies import Results, SACPolicy

__all__ = ["DiscreteMASACPolicy", "MASACPolicy"]

_SHARE = 0.2
"""Default of the target entropy of discrete actions, as a share of that of uniform ones."""


class MASACPolicy(TeamQACPolicy, SACPolicy):
    """Maximizes return and entropy; actors are Gaussians squashed by tanh."""

    config_class: ClassVar[type[PolicyConfig]] = MASACConfig
    _cfg: MASACConfig  # type: ignore[assignment] # has no option of gSDE
    soft: ClassVar[bool] = True

    def _init_learn(self) -> None:
        super()._init_learn()
        each = torch.full((self._model.agents,), math.log(self._cfg.learn.alpha))
        self._log_alpha = torch.nn.Parameter(each.to(self._device))
        if "alpha" in self._flats:
            self._flats["alpha"] = Flat([self._log_alpha])
            decay = {"weight_decay": 0.0} if "weight_decay" in self._cfg.learn.optimizer else {}
            self._optimizers["alpha"] = self._optimizer_of(self._flats["alpha"], **decay)

    def _default_entropy(self) -> float:
        return -float(self._model.width)

    def _next_obs(self, batch: Batch) -> Tree:
        """Returns what follows: present actors choose, and critics of the target network value."""
        later = batch["next_obs"]
        if not self._recurrent:
            return later
        width = self._model.remembers
        acting, valuing = (each["memory"] for each in (batch["chooser_obs"], later))
        return {**later, "memory": torch.cat([acting[..., :width], valuing[..., width:]], -1)}

    def _update_actor(self, batch: Batch) -> Results:
        batch = self._remembered(batch)
        obs, alpha = batch["obs"], self._alpha
        self._move_target_entropy()
        loss, entropy = self._actor_loss(batch)
        self._step("actor", loss)
        mean, seen = _mean_of_agents(entropy, obs)
        if "alpha" in self._optimizers:
            self._flats["alpha"].grad.copy_((mean - self._wanted_entropy(obs)) * seen)
            self._optimizers["alpha"].step()
        self._move_target("critic")
        return {
            "actor_loss": loss.detach(),
            "alpha": alpha.mean(),
            "entropy": (mean * seen).sum() / seen.sum().clamp(min=1),
        }

    def _actor_loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Computes the loss of the actors, and entropies [B, A] without their graph."""
        obs = batch["obs"]
        action, log_prob = self._sample(obs)
        q = self._model.q(obs, self._unit_action(batch["action"]), action, frozen=True)
        each, factor = self._alpha * log_prob - q.amin(0), weight_of_acting(obs)
        return (each if factor is None else each * factor).mean(), -log_prob.detach()


class DiscreteMASACPolicy(DiscreteTeamPolicy, MASACPolicy):
    """Categorical actors, and Q networks with one output per action of their agent."""

    def _default_entropy(self) -> float:
        return _SHARE * math.log(self._model.width)

    def _wanted_entropy(self, obs: Tree) -> Any:
        """Returns what temperatures keep the entropy of agents near to: one number, or [A]."""
        mask, learn = mask_of(obs), self._cfg.learn
        if mask is None or (learn.target_entropy, learn.target_entropy_end) != (None, None):
            return self._target_entropy
        largest = (mask != 0).sum(-1).clamp(min=1).log()
        return _SHARE * _mean_of_agents(largest, obs)[0]

    def _q_taken(self, batch: Batch) -> Tensor:
        taken = self._unit_action(batch["action"])
        q: Tensor = self._model.q(batch["obs"], taken)
        return (q * taken).sum(-1)

    def _next_value(self, next_obs: Tree) -> Tensor:
        logit = legal(self._model.policy(next_obs)["logit"], next_obs)
        others = one_hot(logit + self._gumbel(logit))
        least = self._target_model.q(next_obs, others).amin(0)
        return soft_expectation(logit, least, self._alpha.unsqueeze(1))[0]

    def _actor_loss(self, batch: Batch) -> tuple[Tensor, Tensor]:
        obs = batch["obs"]
        with torch.no_grad():
            least = self._model.q(obs, self._unit_action(batch["action"])).amin(0)
        logit = legal(self._model.policy(obs)["logit"], obs)
        value, entropy = soft_expectation(logit, least, self._alpha.unsqueeze(1))
        factor = weight_of_acting(obs)
        return -(value if factor is None else value * factor).mean(), entropy.detach()


def _mean_of_agents(each: Tensor, obs: Tree) -> tuple[Tensor, Tensor]:
    """Returns the means [A] of numbers [B, A] over rows in which the agent acts, and if any is."""
    alive = obs["alive"].float() if "alive" in obs else torch.ones_like(each)
    count = alive.sum(0)
    return (each * alive).sum(0) / count.clamp(min=1), (count > 0).float()
