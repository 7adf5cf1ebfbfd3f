"""Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905).

Shapes: K ready environments, B samples, A action values.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dicore.data import EnvBatch
from dicore.run import stream, torch_stream
from dicore_plugins.functional import to_batch
from dicore_plugins.models import Flat, create_model
from dicore_plugins.optimizers import build_optimizer
from dicore_plugins.policies import Actor, Policy
from schools_rl.config import SACConfig


class SAC(Policy):
    """Maximizes return and entropy from replayed samples."""

    config_class = SACConfig

    def _create_model(self) -> Any:
        with torch_stream("model"):
            return create_model(self._cfg.model)

    def _init_learn(self) -> None:
        learn, model = self._cfg.learn, self._model.to(self._device)
        self._targets = copy.deepcopy(model.critics).requires_grad_(False)
        self._log_alpha = torch.nn.Parameter(torch.zeros(1, device=self._device))
        flat = {
            "actor": Flat(model.actor),
            "critics": Flat(model.critics),
            "alpha": Flat([self._log_alpha]),
        }
        self._critics, self._target_critics = flat["critics"], Flat(self._targets)
        self._optimizers = {
            name: build_optimizer(
                learn.optimizer,
                each,
                learning_rate=learn.learning_rate,
                max_grad_norm=learn.max_grad_norm,
            )
            for name, each in flat.items()
        }
        self._target_entropy = learn.target_entropy
        if self._target_entropy is None:
            self._target_entropy = -float(self._cfg.model.action_shape)
        self._noise = stream("policy/learn")
        self._scale = torch.from_numpy(model.scale).to(self._device)
        self._shift = torch.from_numpy(model.shift).to(self._device)

    def _init_collect(self) -> None:
        self._model.to(self._device)
        self._actor = Actor(self._model, self._device)
        self._rng = stream("policy/collect")

    def _init_eval(self) -> None:
        self._model.to(self._device)
        self._eval_actor = Actor(self._model, self._device)

    def _forward_collect(self, obs: Any, **_: Any) -> EnvBatch[Any]:
        batch = EnvBatch.of(obs)
        output = self._actor(batch.value)
        noise = self._rng.standard_normal(output["mean"].shape, np.float32)
        return batch.with_value({"action": self._squash(output["mean"], output["log_std"], noise)})

    def _forward_eval(self, obs: Any) -> EnvBatch[Any]:
        batch = EnvBatch.of(obs)
        output = self._eval_actor(batch.value)
        return batch.with_value({"action": self._squash(output["mean"], 0.0, 0.0)})

    def _squash(self, mean: Any, log_std: Any, noise: Any) -> Any:
        action = np.tanh(mean + np.exp(log_std) * noise).astype(np.float32)
        return action * self._model.scale + self._model.shift

    def _sample(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Actions in [-1, 1] [B, A] and their log-probabilities [B], both with their graph."""
        output = self._model.policy(obs)
        drawn = self._noise.standard_normal(tuple(output["mean"].shape), np.float32)
        noise = torch.from_numpy(drawn).to(self._device)
        raw = output["mean"] + output["log_std"].exp() * noise
        logp = -(0.5 * noise**2 + output["log_std"] + 0.5 * math.log(2 * math.pi)).sum(-1)
        correction = 2 * (math.log(2) - raw - F.softplus(-2 * raw))
        return torch.tanh(raw), logp - correction.sum(-1)

    def _forward_learn(self, data: Any, **_: Any) -> dict[str, Any]:
        batch, model = to_batch(data, self._device), self._model
        obs, weight = batch["obs"], batch.get("weight", batch.get("IS"))
        action, logp = self._sample(obs)
        alpha_loss = -(self._log_alpha * (logp.detach() + self._target_entropy)).mean()
        alpha = self._log_alpha.detach().exp()
        self._step("alpha", alpha_loss)

        target = self._target(batch, alpha)
        taken = (batch["action"].float() - self._shift) / self._scale
        error = model.q(obs, taken) - target
        squares = error**2 if weight is None else error**2 * weight
        critic_loss = 0.5 * squares.mean(1).sum()
        self._step("critics", critic_loss)

        actor_loss = (alpha * logp - model.q(obs, action).min(0).values).mean()
        self._step("actor", actor_loss)
        self._target_critics.data.lerp_(self._critics.data, self._cfg.learn.target_theta)
        return {
            "cur_lr": self._cfg.learn.learning_rate,
            "total_loss": (critic_loss + actor_loss).detach(),
            "critic_loss": critic_loss.detach(),
            "actor_loss": actor_loss.detach(),
            "alpha": alpha[0],
            "priority": error.detach().abs().mean(0),
        }

    def _target(self, batch: Any, alpha: Tensor) -> Tensor:
        with torch.no_grad():
            action, logp = self._sample(batch["next_obs"])
            x = torch.cat([batch["next_obs"].float().flatten(1), action], -1)
            values = torch.stack([critic(x).squeeze(-1) for critic in self._targets])
            future = values.min(0).values - alpha * logp
            if not self._cfg.learn.ignore_done:
                future = future * (1 - batch["done"])
            return batch["reward"] + self._cfg.discount_factor * future

    def _step(self, name: str, loss: Tensor) -> None:
        optimizer = self._optimizers[name]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step(loss)

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "critic_loss", "actor_loss", "alpha"]

    def _state_dict_learn(self) -> dict[str, Any]:
        optimizers = {name: each.state_dict() for name, each in self._optimizers.items()}
        targets = dict(self._targets.state_dict())
        more = {"targets": targets, "log_alpha": self._log_alpha.detach(), "optimizers": optimizers}
        return {**self._state_dict_model(), **more}

    def _load_state_dict_learn(self, state: Any) -> None:
        self._load_state_dict_model(state)
        self._targets.load_state_dict(dict(state["targets"]))
        self._log_alpha.data.copy_(torch.as_tensor(state["log_alpha"]))
        for name, optimizer in self._optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
