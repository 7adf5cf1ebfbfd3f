"""Behaviour cloning (Pomerleau 1989)."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F

from dicore_plugins.functional import to_batch
from schools_rl.config import CloningConfig
from schools_rl.ppo import ActorCriticPolicy


class Cloning(ActorCriticPolicy):
    """Imitates the actions of a dataset with columns `obs` and `action`."""

    config_class = CloningConfig

    def _forward_learn(self, data: Any, **_: Any) -> dict[str, Any]:
        batch = to_batch(data, self._device)
        output = self._model(batch["obs"])
        if self._box is None:
            index = batch["action"].long() - self._cfg.action_start
            loss = F.cross_entropy(output["logit"], index)
        else:
            loss = F.mse_loss(output["mean"], batch["action"].float())
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step(loss)
        return {"cur_lr": self._optimizer.learning_rate, "total_loss": loss.detach()}
