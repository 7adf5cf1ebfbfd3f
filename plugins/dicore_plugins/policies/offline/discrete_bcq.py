"""BCQ for discrete actions (Fujimoto et al. 2019, arXiv:1910.01708), over double DQN.

An imitation of the data limits the choice: an action counts only if its probability is at least
`model.threshold` of that of the most probable one.

Shapes: B samples, A actions.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Tree
from dicore_plugins.functional.exploration import mask_of
from dicore_plugins.functional.imitation import bc_error
from dicore_plugins.functional.losses import weighted_mean
from dicore_plugins.functional.td import dqn_td_target
from dicore_plugins.policies.offline.bcq_config import DiscreteBCQConfig
from dicore_plugins.policies.value.dqn import DQNPolicy


class DiscreteBCQPolicy(DQNPolicy):
    """DQN whose choice is limited to actions like the recorded ones, from a dataset."""

    config_class: ClassVar[type[PolicyConfig]] = DiscreteBCQConfig
    _cfg: DiscreteBCQConfig

    network_has = ("imitation", "likely")

    def _check_values(self, model: nn.Module) -> None:
        """Checks nothing: its outputs are not those of DQN."""

    def _target(self, batch: Batch) -> Tensor:
        """Computes y: float32 [B]."""
        obs = batch["next_obs"]
        with torch.no_grad():
            next_q = self._target_model.q(obs)
            online = self._model.q(obs) if self._cfg.learn.double else next_q
            return dqn_td_target(next_q, *self._bridged(batch), self._model.likely(obs, online))

    def _regulariser(self, q: Tree, batch: Batch, weight: Tensor | None) -> Tensor:
        logit, mask = self._model.imitation(batch["obs"]), mask_of(batch["obs"])
        action = self._action_index(batch["action"]).reshape(-1)
        loss, _ = bc_error({"logit": logit}, action, weight, mask)
        logit_weight: float = self._cfg.learn.logit_weight
        return loss + logit_weight * weighted_mean(logit.square().mean(1), weight)
