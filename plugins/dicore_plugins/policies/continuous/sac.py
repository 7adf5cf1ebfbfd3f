"""SAC: soft actor-critic with a learned temperature (Haarnoja et al. 2018, arXiv:1812.05905).

V'(s') = min_e Q'_e(s', a') - alpha log pi(a'|s'), where a' is sampled by the present actor.

Shapes: K ready environments, B samples, A dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, State, StateDict, Tree
from dicore_plugins.functional.distributions import squashed_gaussian, squashed_gaussian_and_pull
from dicore_plugins.models.flat import Flat
from dicore_plugins.models.formulas import with_formula
from dicore_plugins.policies.base import Results
from dicore_plugins.policies.continuous.base import ContinuousQPolicy
from dicore_plugins.policies.continuous.held_noise import HeldNoise
from dicore_plugins.policies.continuous.sac_config import SACConfig
from dicore_plugins.policies.outputs import Signature

if TYPE_CHECKING:
    from dicore_plugins.policies.continuous.discrete_sac_config import DiscreteSACConfig


class SACPolicy(ContinuousQPolicy):
    """Maximizes return and entropy; the actor is a Gaussian squashed by tanh."""

    config_class: ClassVar[type[PolicyConfig]] = SACConfig
    _cfg: SACConfig | DiscreteSACConfig
    attributes: ClassVar[tuple[str, ...]] = ("target_entropy",)
    kept: ClassVar[tuple[str, ...]] = ("mean", "log_std")
    shapes: ClassVar[Mapping[str, Signature]] = {
        **ContinuousQPolicy.shapes, "policy": ("", {"mean": "BA", "log_std": "BA"})
    }  # fmt: skip

    def _init_learn(self) -> None:
        super()._init_learn()
        learn = self._cfg.learn
        start = torch.full((1,), math.log(learn.alpha), device=self._device)
        self._log_alpha = torch.nn.Parameter(start)
        if learn.auto_alpha:
            self._flats["alpha"] = Flat([self._log_alpha])
            decay = {"weight_decay": 0.0} if "weight_decay" in learn.optimizer else {}
            self._optimizers["alpha"] = self._optimizer_of(self._flats["alpha"], **decay)
        wanted = learn.target_entropy
        self._target_entropy = self._default_entropy() if wanted is None else wanted
        self._first_entropy = self._target_entropy

    def _default_entropy(self) -> float:
        """Returns the target of the entropy if the config has none."""
        return -float(self._actions.size)

    def _wanted_entropy(self, obs: Tree) -> Any:
        """Returns what the temperature keeps the mean entropy of the actions near to."""
        return self._target_entropy

    @property
    def _alpha(self) -> Tensor:
        """The temperature, float32 [1], without its graph."""
        return self._log_alpha.detach().exp()

    def _next_value(self, next_obs: Tree) -> Tensor:
        action, log_prob = self._sample(next_obs)
        least = self._least(self._target_model.q(next_obs, action))
        return torch.addcmul(least, self._alpha, log_prob, value=-1)

    def _least(self, q: Tensor) -> Tensor:
        """Returns what targets take [B], of the Q values of next states [E, B]."""
        return q.amin(0)

    def _move_target_entropy(self) -> None:
        learn = self._cfg.learn
        if (end := learn.get("target_entropy_end")) is not None:
            progress = min((self._update_count - 1) / learn.target_entropy_decay, 1.0)
            self._target_entropy = self._first_entropy + (end - self._first_entropy) * progress

    def _update_actor(self, batch: Batch) -> Results:
        alpha = self._alpha
        self._move_target_entropy()
        loss, entropy = self._descend("actor", batch["obs"])
        if "alpha" in self._optimizers:  # its loss is log_alpha (entropy - target)
            self._flats["alpha"].grad.copy_(entropy - self._wanted_entropy(batch["obs"]))
            self._optimizers["alpha"].step()
        if self.has_target:
            self._move_target("critic")
        return {"actor_loss": loss.detach(), "alpha": alpha[0], "entropy": entropy}

    @torch.no_grad()
    def _actor_gradient(self, obs: Tree) -> tuple[Tensor, Tensor]:
        """Computes what `_actor_loss` does and the gradient of the actor, by formulas."""
        alpha = self._alpha
        output, pull = self._model.policy_and_pull(obs)
        mean, rows = output["mean"], len(output["mean"])
        action, log_prob, pull_sample = squashed_gaussian_and_pull(
            mean, output["log_std"], self._normal(mean)
        )
        q, pull_q = self._model.q_and_pull(obs, action)
        least, index = q.min(0, keepdim=True)
        slope = torch.zeros_like(q).scatter_(0, index, -1 / rows)
        pull(*pull_sample(pull_q(slope, frozen=True), (alpha / rows).expand(rows)))
        return (alpha * log_prob - least[0]).mean(), -log_prob.mean()

    @with_formula(_actor_gradient, "_actor_value", "_sample", "_step")
    def _actor_loss(self, obs: Tree) -> tuple[Tensor, Tensor]:
        """Computes the loss of the actor, and the entropy of its actions, without its graph."""
        action, log_prob = self._sample(obs)
        value = self._actor_value(self._model.q(obs, action, frozen=True))
        return (self._alpha * log_prob - value).mean(), -log_prob.detach().mean()

    def _actor_value(self, q: Tensor) -> Tensor:
        """Returns what the actor maximizes [B], of Q values [E, B]."""
        return q.amin(0)

    def _sample(self, obs: Tree) -> tuple[Tensor, Tensor]:
        """Samples actions in (-1, 1) [B, A], and computes their log-probabilities [B]."""
        output = self._model.policy(obs)
        mean = output["mean"]
        return squashed_gaussian(mean, output["log_std"], self._normal(mean))

    def _get_action_distribution(self) -> str:
        """Returns "" with gSDE that keeps its noise: an action depends on those before it."""
        model, collect = self._cfg.model, self._cfg.collect
        held = model is not None and model.get("gsde") and collect.get("sde_sample_freq", 1) > 1
        return "" if held else "squashed_gaussian"

    def _init_collect(self) -> None:
        super()._init_collect()
        self._held_noise = HeldNoise(self._rng, self._cfg.collect.get("sde_sample_freq", 1))

    def _explore(self, output: Columns, env_id: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        mean = output["mean"]
        features = output.get("features")
        if features is None:
            noise = np.exp(output["log_std"]) * self._rng.standard_normal(mean.shape, np.float32)
        else:
            std = output["noise_std"]
            theta = std * self._held_noise.of(env_id, std.shape)
            noise = (features[:, None] @ theta)[:, 0]
        action: npt.NDArray[np.float32] = np.tanh(mean + noise)
        return action

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "alpha", "entropy"]

    def _state_dict_learn(self) -> StateDict:
        state = {**super()._state_dict_learn(), "log_alpha": self._log_alpha.detach()}
        if "collect" in self._enabled:
            state["held_noise"] = self._held_noise.state_dict()
        return state

    def _load_state_dict_learn(self, state: State) -> None:
        super()._load_state_dict_learn(state)
        with torch.no_grad():
            self._log_alpha.copy_(torch.as_tensor(state["log_alpha"]))
        if "collect" in self._enabled and "held_noise" in state:
            self._held_noise.load_state_dict(state["held_noise"])
