"""SAC: soft actor-critic with a learned temperature (Haarnoja et al. 2018, arXiv:1812.05905).

V'(s') = min_e Q'_e(s', a') - alpha log pi(a'|s'), where a' is sampled by the present actor.

Shapes: K ready environments, B samples, A dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore_plugins.functional.distributions import squashed_gaussian
from dicore_plugins.models.flat import Flat
from dicore_plugins.policies.continuous_q.policy import ContinuousQPolicy
from dicore_plugins.policies.sac.config import SACConfig


class SACPolicy(ContinuousQPolicy):
    """Maximizes return and entropy; the actor is a Gaussian squashed by tanh."""

    config_class: ClassVar[type[PolicyConfig]] = SACConfig

    def _init_learn(self) -> None:
        super()._init_learn()
        learn = self._cfg.learn
        start = torch.full((1,), math.log(learn.alpha), device=self._device)
        self._log_alpha = torch.nn.Parameter(start)
        if learn.auto_alpha:
            self._flats["alpha"] = Flat([self._log_alpha])
            self._optimizers["alpha"] = self._optimizer_of(self._flats["alpha"])
        wanted = learn.target_entropy
        self._target_entropy = -float(self._range[0].size) if wanted is None else wanted

    def _next_value(self, next_obs: Any) -> Tensor:
        action, log_prob = self._sample(next_obs)
        least = self._target_model.q(next_obs, action).amin(0)
        return torch.addcmul(least, self._log_alpha.detach().exp(), log_prob, value=-1)

    def _update_actor(self, obs: Any) -> dict[str, Any]:
        action, log_prob = self._sample(obs)
        alpha = self._log_alpha.detach().exp()
        loss = (alpha * log_prob - self._model.q(obs, action, frozen=True).amin(0)).mean()
        self._step("actor", loss)
        entropy = -log_prob.detach().mean()
        if "alpha" in self._optimizers:
            self._step("alpha", (self._log_alpha * (entropy - self._target_entropy)).sum())
        self._move_target("critic")
        return {"actor_loss": loss.detach(), "alpha": alpha[0], "entropy": entropy}

    def _sample(self, obs: Any) -> tuple[Tensor, Tensor]:
        """Samples actions in (-1, 1) [B, A], and computes their log-probabilities [B]."""
        output = self._model.policy(obs)
        mean = output["mean"]
        return squashed_gaussian(mean, output["log_std"], self._normal(mean))

    def _explore(self, output: dict[str, Any]) -> npt.NDArray[Any]:
        mean, log_std = output["mean"], output["log_std"]
        noise = self._rng.standard_normal(mean.shape, np.float32)
        action: npt.NDArray[Any] = np.tanh(mean + np.exp(log_std) * noise)
        return action

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "alpha", "entropy"]

    def _state_dict_learn(self) -> dict[str, Any]:
        return {**super()._state_dict_learn(), "log_alpha": self._log_alpha.detach()}

    def _load_state_dict_learn(self, state: Mapping[str, Any]) -> None:
        super()._load_state_dict_learn(state)
        with torch.no_grad():
            self._log_alpha.copy_(torch.as_tensor(state["log_alpha"]))
