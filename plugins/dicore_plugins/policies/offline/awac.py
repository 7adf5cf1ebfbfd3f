"""AWAC: advantage-weighted actor-critic (Nair et al. 2020, arXiv:2006.09359).

The actor imitates the recorded actions with the weights exp(A / lambda), A = Q(s, a) - Q(s, pi(s)).
V'(s') = min_e Q'_e(s', a'), where a' is sampled by the present actor.

Actions are Gaussian around tanh of the network's output, and clipped to [-1, 1].

Shapes: K ready environments, B samples, A dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, Tree
from dicore_plugins.functional.distributions import log_prob_entropy
from dicore_plugins.functional.offline import advantage_weight, awr_error
from dicore_plugins.policies.base import Results
from dicore_plugins.policies.continuous.base import ContinuousQPolicy
from dicore_plugins.policies.offline.awac_config import AWACConfig
from dicore_plugins.policies.outputs import Signature


class AWACPolicy(ContinuousQPolicy):
    """Q networks of a dataset, and an actor that imitates the actions they prefer."""

    config_class: ClassVar[type[PolicyConfig]] = AWACConfig
    _cfg: AWACConfig
    shapes: ClassVar[Mapping[str, Signature]] = {
        **ContinuousQPolicy.shapes, "policy": ("", {"mean": "BA", "log_std": "BA"})
    }  # fmt: skip

    def _next_value(self, next_obs: Tree) -> Tensor:
        value: Tensor = self._target_model.q(next_obs, self._sample(next_obs)).amin(0)
        return value

    def _sample(self, obs: Tree) -> Tensor:
        """Samples actions in [-1, 1] of the present actor: float32 [B, A]."""
        output = _centred(self._model.policy(obs))
        noise = self._normal(output["mean"])
        return torch.addcmul(output["mean"], output["log_std"].exp(), noise).clamp(-1.0, 1.0)

    def _update_actor(self, batch: Batch) -> Results:
        with torch.no_grad():
            q = self._model.q(batch["obs"], self._unit_action(batch["action"])).amin(0)
            value = self._model.q(batch["obs"], self._sample(batch["obs"])).amin(0)
        return self._imitate(batch, q - value)

    def _imitate(self, batch: Batch, advantage: Tensor) -> Results:
        """Updates the actor by the recorded actions and their advantages [B]."""
        learn = self._cfg.learn
        weights = advantage_weight(advantage, learn.temperature, learn.max_weight)
        output = _centred(self._model.policy(batch["obs"]))
        log_prob, _ = log_prob_entropy(output, self._unit_action(batch["action"]))
        loss = awr_error(log_prob, weights)
        self._step("actor", loss)
        self._move_target("critic")
        return {"actor_loss": loss.detach(), "advantage_weight": weights.mean()}

    def _explore(self, output: Columns, env_id: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        noise = self._rng.standard_normal(output["mean"].shape, np.float32)
        action: npt.NDArray[np.float32] = np.clip(
            np.tanh(output["mean"]) + np.exp(output["log_std"]) * noise, -1, 1
        )
        return action

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "advantage_weight"]


def _centred(output: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns mean (within [-1, 1]) and log standard deviation of the Gaussian of actions."""
    return {"mean": output["mean"].tanh(), "log_std": output["log_std"]}
