"""BCQ: batch-constrained Q-learning (Fujimoto et al. 2019, arXiv:1812.02900).

A variational autoencoder imitates the recorded actions. The policy samples actions from it, changes
them slightly by an actor that maximizes Q_1, and takes the one with the largest Q_1.
V'(s') = max over such actions of share min_e Q'_e + (1 - share) max_e Q'_e.

Shapes: K ready environments, B samples, A dimensions, Z latent numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, Tree
from dicore_plugins.functional.offline import soft_minimum
from dicore_plugins.models.flat import Flat
from dicore_plugins.policies.base import Results
from dicore_plugins.policies.continuous.base import ContinuousQPolicy
from dicore_plugins.policies.offline.bcq_config import BCQConfig
from dicore_plugins.policies.outputs import Signature


class BCQPolicy(ContinuousQPolicy):
    """Q-learning over actions that an autoencoder of the data generates."""

    config_class: ClassVar[type[PolicyConfig]] = BCQConfig
    _cfg: BCQConfig
    export_problem: ClassVar[str] = "it chooses among actions that its autoencoder samples"
    shapes: ClassVar[Mapping[str, Signature]] = {
        "q": ("A", "EB")
    }  # fmt: skip
    needed: ClassVar[tuple[str, ...]] = (
        *ContinuousQPolicy.needed, "encode", "vae", "encoded", "decoded", "perturbed", "latent",
    )  # fmt: skip

    def _init_learn(self) -> None:
        super()._init_learn()
        self._flats["vae"] = Flat(self._model.vae)
        self._optimizers["vae"] = self._optimizer_of(self._flats["vae"])

    def _next_value(self, next_obs: Tree) -> Tensor:
        learn, model, target = self._cfg.learn, self._model, self._target_model
        features = model.encode.forward(next_obs).repeat_interleave(learn.n_action, 0)
        action = target.perturbed(features, self._imitated(features))
        q = target.critic.forward(torch.cat((features, action), -1)).squeeze(-1)
        return soft_minimum(q, learn.minimum_share).view(-1, learn.n_action).amax(1)

    def _imitated(self, features: Tensor) -> Tensor:
        """Samples actions like the recorded ones: float32 [B, A]."""
        latent = self._normal(features.new_empty((len(features), self._model.latent)))
        action: Tensor = self._model.decoded(features, latent.clamp(-0.5, 0.5))
        return action

    def _update_actor(self, batch: Batch) -> Results:
        model, features = self._model, self._model.encode.forward(batch["obs"])
        imitation = self._imitation_loss(features, self._unit_action(batch["action"]))
        self._step("vae", imitation)
        with torch.no_grad():
            imitated = self._imitated(features)
        action = model.perturbed(features, imitated)
        q = model.critic.forward(torch.cat((features, action), -1), frozen=True)
        loss = -q[0].mean()
        self._step("actor", loss)
        self._move_target("actor", "critic")
        return {"actor_loss": loss.detach(), "imitation_loss": imitation.detach()}

    def _imitation_loss(self, features: Tensor, action: Tensor) -> Tensor:
        """Computes the loss of the autoencoder: squared error plus half of the KL divergence."""
        mean, log_std = self._model.encoded(features, action)
        std = log_std.exp()
        found = self._model.decoded(features, torch.addcmul(mean, std, self._normal(mean)))
        divergence = -0.5 * (1 + 2 * log_std - mean.square() - std.square()).mean()
        loss: Tensor = (found - action).square().mean() + 0.5 * divergence
        return loss

    def _explore(self, output: Columns, env_id: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        action: npt.NDArray[np.float32] = output["action"]
        return action

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        batch = EnvBatch.of(obs)
        action = self._actor.forward(batch.value)["action"]
        return batch.with_value({"action": self._env_action(action)})

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "imitation_loss"]
