"""Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347).

Shapes: K ready environments, T steps, N environments, B samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.distributions import Categorical, Independent, Normal

from dicore.data import Batch, EnvBatch
from dicore.interfaces.policy import Tail
from dicore.run import stream, torch_stream
from dicore_plugins.functional import flatten_time, gae, rows_after, to_batch
from dicore_plugins.models import Flat, create_model
from dicore_plugins.optimizers import build_optimizer
from dicore_plugins.policies import Actor, Policy
from schools_rl.config import PPOConfig

LOG_2PI = np.log(2 * np.pi)


class ActorCriticPolicy(Policy):
    """Acts by an actor-critic network; what PPO, REINFORCE and cloning have in common."""

    def _create_model(self) -> Any:
        with torch_stream("model"):
            return create_model(self._cfg.model)

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._model.to(self._device)
        self._optimizer = build_optimizer(
            learn.optimizer,
            Flat(self._model),
            learning_rate=learn.learning_rate,
            max_grad_norm=learn.max_grad_norm,
        )

    def _init_collect(self) -> None:
        self._model.to(self._device)
        self._actor = Actor(self._model, self._device)
        self._rng = stream("policy/collect")

    def _init_eval(self) -> None:
        self._model.to(self._device)
        self._eval_actor = Actor(self._model, self._device)

    @property
    def _box(self) -> Any:
        return None if self._cfg.model.low is None else (self._cfg.model.low, self._cfg.model.high)

    def _env_action(self, action: Any) -> Any:
        """Clips continuous actions; shifts discrete ones."""
        return action + self._cfg.action_start if self._box is None else np.clip(action, *self._box)

    def _forward_collect(self, obs: Any, **_: Any) -> EnvBatch[Any]:
        batch = EnvBatch.of(obs)
        output = self._actor(batch.value)
        if self._box is None:
            logit = output["logit"].astype(np.float64)
            z = logit - logit.max(-1, keepdims=True)
            log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
            noise = self._rng.random((len(batch), 1))
            chosen = (np.exp(log_p).cumsum(-1) <= noise * (1 - 1e-12)).sum(-1)
            chosen = np.minimum(chosen, logit.shape[-1] - 1)
            logp = log_p[np.arange(len(batch)), chosen]
        else:
            noise = self._rng.standard_normal(output["mean"].shape)
            log_std = output["log_std"]
            chosen = (output["mean"] + np.exp(log_std) * noise).astype(np.float32)
            logp = -(0.5 * noise**2 + log_std + 0.5 * LOG_2PI).sum(-1)
        facts = {"chosen": chosen, "logp": logp.astype(np.float32), "value": output["value"]}
        return batch.with_value({"action": self._env_action(chosen), **facts})

    def _forward_eval(self, obs: Any) -> EnvBatch[Any]:
        batch = EnvBatch.of(obs)
        output = self._eval_actor(batch.value)
        best = output["mean"] if "mean" in output else output["logit"].argmax(-1)
        return batch.with_value({"action": self._env_action(best)})

    def _process_transition(self, obs: Any, output: Any, timestep: Any) -> dict[str, Any]:
        columns = super()._process_transition(obs, output, timestep)
        return {**columns, **{key: output[key] for key in ("chosen", "logp", "value")}}

    def _advantages(self, block: Batch, tail: Tail, gae_lambda: float) -> Batch:
        """Samples with `advantage` and `target`, the return to learn the value from."""
        finals = tail.final_obs
        final_value = self._actor(finals)["value"] if len(tail.final_index) else np.empty(0)
        value, last = block["value"], self._actor(tail.obs)["value"]
        done = block["done"] & False if self._cfg.learn.ignore_done else block["done"]
        advantage = gae(
            block["reward"], value, rows_after(value, last, final_value, tail), done, block["end"],
            gamma=self._cfg.discount_factor, gae_lambda=gae_lambda,
        )  # fmt: skip
        kept = ("obs", "chosen", "logp", "value", "end", "valid", "env_id")
        columns = {key: block[key] for key in kept}
        made = {"advantage": advantage, "target": advantage + value}
        return flatten_time(Batch({**columns, **made}, len(block)))

    def _distribution(self, output: Any) -> Any:
        if "logit" in output:
            return Categorical(logits=output["logit"], validate_args=False)
        deviation = output["log_std"].exp().expand_as(output["mean"])
        return Independent(Normal(output["mean"], deviation, validate_args=False), 1)

    def _state_dict_learn(self) -> dict[str, Any]:
        return {**self._state_dict_model(), "optimizer": self._optimizer.state_dict()}

    def _load_state_dict_learn(self, state: Any) -> None:
        self._load_state_dict_model(state)
        self._optimizer.load_state_dict(state["optimizer"])


class PPO(ActorCriticPolicy):
    """Clipped policy updates on the samples of the current policy."""

    config_class = PPOConfig

    def _init_learn(self) -> None:
        super()._init_learn()
        self._order = stream("policy/learn")

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        assert tail is not None
        return self._advantages(block, tail, self._cfg.learn.gae_lambda)

    def _forward_learn(self, data: Any, **_: Any) -> list[dict[str, Any]]:
        """Makes one update per minibatch, `update_per_collect` times over all samples."""
        batch, size = to_batch(data, self._device), self._cfg.learn.batch_size
        results = []
        for _ in range(self._cfg.learn.update_per_collect):
            order = torch.from_numpy(self._order.permutation(len(batch)))
            results += [self._update(batch[chosen]) for chosen in order.split(size)]
        return results

    def _update(self, batch: Batch) -> dict[str, Any]:
        learn, advantage = self._cfg.learn, batch["advantage"]
        if len(batch) > 1:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        output = self._model(batch["obs"])
        distribution = self._distribution(output)
        change = distribution.log_prob(batch["chosen"]) - batch["logp"]
        ratio = change.exp()
        clipped = ratio.clamp(1 - learn.clip_ratio, 1 + learn.clip_ratio)
        policy_loss = -torch.minimum(ratio * advantage, clipped * advantage).mean()
        value_loss = torch.nn.functional.mse_loss(output["value"], batch["target"])
        entropy = distribution.entropy().mean()
        loss = policy_loss + learn.value_weight * value_loss - learn.entropy_weight * entropy
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step(loss)
        with torch.no_grad():
            kl = (ratio - 1 - change).mean()
        return {
            "cur_lr": self._optimizer.learning_rate,
            "total_loss": loss.detach(),
            "policy_loss": policy_loss.detach(),
            "value_loss": value_loss.detach(),
            "entropy": entropy.detach(),
            "approx_kl": kl,
        }

    def _monitor_vars_learn(self) -> list[str]:
        return ["cur_lr", "total_loss", "policy_loss", "value_loss", "entropy", "approx_kl"]
