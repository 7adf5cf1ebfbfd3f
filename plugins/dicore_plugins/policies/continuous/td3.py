"""TD3 (Fujimoto et al. 2018, arXiv:1802.09477) and DDPG (Lillicrap et al. 2016, arXiv:1509.02971).

V'(s') = min_e Q'_e(s', clip(mu'(s') + clip(noise))). DDPG is TD3 with one Q network, without noise
in targets and without delay.

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
from dicore.data import Batch, Columns, EnvBatch, Tree
from dicore_plugins.policies.base import Results
from dicore_plugins.policies.continuous.base import ContinuousQPolicy
from dicore_plugins.policies.continuous.td3_config import TD3Config


class TD3Policy(ContinuousQPolicy):
    """A deterministic actor with Gaussian exploration noise, and Q networks."""

    config_class: ClassVar[type[PolicyConfig]] = TD3Config
    _cfg: TD3Config

    def _next_value(self, next_obs: Tree) -> Tensor:
        value: Tensor = self._target_model.q(next_obs, self._next_action(next_obs)).amin(0)
        return value

    def _next_action(self, next_obs: Tree) -> Tensor:
        """Computes the smoothed actions of the target network: float32 [B, A]."""
        learn = self._cfg.learn
        action: Tensor = self._target_model.policy(next_obs)["mean"].tanh()
        if learn.target_noise:
            noise = self._normal(action) * learn.target_noise
            limit = learn.target_noise_clip
            action = (action + noise.clamp(-limit, limit)).clamp(-1.0, 1.0)
        return action

    def _update_actor(self, batch: Batch) -> Results:
        if self._update_count % self._cfg.learn.actor_update_freq:
            return {"actor_loss": None}
        loss = self._actor_loss(batch, torch.tanh(self._model.policy(batch["obs"])["mean"]))
        self._step("actor", loss)
        self._move_target("actor", "critic")
        return {"actor_loss": loss.detach()}

    def _actor_loss(self, batch: Batch, action: Tensor) -> Tensor:
        """Computes the loss of the actor, a scalar, from its actions [B, A]."""
        loss: Tensor = -self._model.q(batch["obs"], action, frozen=True)[0].mean()
        return loss

    def _forward_collect(
        self, obs: Mapping[int, Tree], noise: float | None = None, **unknown: object
    ) -> EnvBatch[Columns]:
        """Selects actions with exploration noise.

        Args:
            obs: `{env_id: obs}` of K environments.
            noise: Its standard deviation; None: that at the end of the schedule.
            **unknown: Raises UsageError; catches a misspelt `noise`.

        Raises:
            UsageError: another keyword argument is passed.
        """
        self._noise_now = self._cfg.collect.noise_at(None) if noise is None else noise
        return super()._forward_collect(obs, **unknown)

    def _explore(self, output: Columns, env_id: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        action: npt.NDArray[np.float32] = np.tanh(output["mean"])
        noise = self._rng.standard_normal(action.shape, np.float32)
        noisy: npt.NDArray[np.float32] = np.clip(
            action + np.float32(self._noise_now) * noise, -1, 1
        )
        return noisy

    def _get_setting_collect(self, command_info: Mapping[str, int]) -> dict[str, float]:
        """Computes the exploration noise at `envstep`."""
        return {"noise": self._cfg.collect.noise_at(command_info["envstep"])}
