"""REINFORCE with a baseline (Williams 1992; Sutton and Barto 2018, section 13.4)."""

from __future__ import annotations

from typing import Any

import torch

from dicore.data import Batch
from dicore.interfaces.policy import Tail
from dicore_plugins.functional import to_batch
from schools_rl.config import ReinforceConfig
from schools_rl.ppo import ActorCriticPolicy


class Reinforce(ActorCriticPolicy):
    """One update per collect, from the returns of whole episodes."""

    config_class = ReinforceConfig

    def _get_sample_len(self) -> str:
        return "episode"

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        assert tail is not None
        return self._advantages(block, tail, 1.0)

    def _forward_learn(self, data: Any, **_: Any) -> dict[str, Any]:
        batch = to_batch(data, self._device)
        output = self._model(batch["obs"])
        advantage = batch["target"] - output["value"].detach()
        if len(batch) > 1:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        logp = self._distribution(output).log_prob(batch["chosen"])
        value_loss = torch.nn.functional.smooth_l1_loss(output["value"], batch["target"])
        loss = value_loss - (logp * advantage).mean()
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step(loss)
        return {
            "cur_lr": self._optimizer.learning_rate,
            "total_loss": loss.detach(),
            "value_loss": value_loss.detach(),
        }
