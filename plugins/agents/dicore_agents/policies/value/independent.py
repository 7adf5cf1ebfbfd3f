"""Independent Q-learning (Tan 1993; Tampuu et al. 2017, arXiv:1511.08779).

Each agent takes the others for a part of the environment:

    y_a = r_a + gamma (1 - done_a) Q'_a(o'_a, argmax_u Q_a(o'_a, u))

An agent that would not act in the next step has ended. Where the reward is one number of the team,
its return goes on without the agent, as those that remain estimate it, and samples cross steps in
which nobody acts; see `BridgedSamples`.

Shapes: B rows, A agents.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch
from dicore.interfaces.policy import Tail
from dicore_agents.models.mixers import chosen_of
from dicore_agents.models.observations import alive_of, mean_of_acting, value_of_team
from dicore_agents.policies.apart import ClipApart, networks_that_act
from dicore_agents.policies.samples import own_samples, with_own_rewards
from dicore_agents.policies.value.base import AgentQPolicy
from dicore_agents.policies.value.config import IndependentQConfig
from dicore_plugins.functional import td_loss

__all__ = ["IndependentQPolicy"]


class IndependentQPolicy(AgentQPolicy):
    """DQN for each agent; all of them are one update."""

    config_class: ClassVar[type[PolicyConfig]] = IndependentQConfig
    of_team: ClassVar[bool] = False
    _cfg: IndependentQConfig
    _clip: ClipApart | None = None

    def _init_learn(self) -> None:
        super()._init_learn()
        self._networks = torch.tensor(self._model.networks, device=self._device)
        self._clip = ClipApart.of(self._optimizer, self._model, self._networks)

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        if self._recurrent:
            return super()._get_train_sample(with_own_rewards(block), tail)
        if self._crosses(block):
            return self._bridged_samples(block, tail)
        return own_samples(block, self._cfg.nstep, self._cfg.discount_factor, tail)

    def _team_loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        learn, obs = self._cfg.learn, batch["obs"]
        with torch.no_grad():
            later, best = self._best_next(batch)
            following = chosen_of(later, best, alive_of(batch["next_obs"]))
            reward, going, gamma = self._returns(batch)
            if reward.dim() == 1:
                following = value_of_team(following, batch["next_obs"])
                reward = reward.unsqueeze(1)
            factor = gamma * going
            target = reward + (factor.unsqueeze(1) if factor.dim() else factor) * following
        alive = alive_of(obs)
        if self._clip is not None and alive is not None:
            self._clip.see(networks_that_act(self._networks, alive.shape, alive))
        chosen = chosen_of(self._model.q(obs), batch["action"].long(), alive)
        target = target.expand_as(chosen)
        each = self._agent_weight(batch, weight)
        flat = None if each is None else each.reshape(-1)
        loss, error = td_loss(
            chosen.reshape(-1), target.reshape(-1), flat, learn.criterion, learn.huber_delta
        )
        return loss, mean_of_acting(error.view_as(chosen), obs), target.mean(1)
