"""Munchausen DQN (Vieillard et al. 2020, arXiv:2007.14430)."""

from __future__ import annotations

import torch
from torch import Tensor

from dicore.data import Batch
from dicore_plugins.functional.distributional import munchausen_bonus, soft_target
from dicore_plugins.functional.td import legal
from dicore_plugins.policies.value.dqn import DQNPolicy, q_values
from dicore_plugins.policies.value.mdqn_config import MDQNConfig

__all__ = ["MDQNPolicy"]


class MDQNPolicy(DQNPolicy):
    """Soft Q-learning whose reward has the log probability of the action taken."""

    config_class = MDQNConfig
    _cfg: MDQNConfig

    def _target(self, batch: Batch) -> Tensor | list[Tensor]:
        learn, tau = self._cfg.learn, self._cfg.learn.temperature
        action = self._action_index(batch["action"]).reshape(len(batch["action"]), -1)
        reward, done, gamma = self._bridged(batch)
        with torch.no_grad():
            values = legal(q_values(self._target_model, batch["obs"]), batch["obs"])
            after = legal(q_values(self._target_model, batch["next_obs"]), batch["next_obs"])
            several = not isinstance(values, Tensor)
            targets = []
            for head, (q, next_q) in enumerate(
                zip(values, after, strict=True) if several else [(values, after)]
            ):
                bonus = munchausen_bonus(q, action[:, head], tau, learn.munchausen_lowest)
                given = reward + learn.munchausen_alpha * bonus
                targets.append(soft_target(next_q, given, done, gamma, tau))
        return targets if several else targets[0]
