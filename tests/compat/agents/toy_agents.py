"""Agents for tests: one that counts its steps, PPO, and Q-learning from the whole memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
import torch

from dicore.config import frozen, option
from dicore.run import stream
from dicore_compat.agents import AgentBase, AgentConfig, TeamConfig
from dicore_plugins.functional import log_prob_entropy
from dicore_plugins.model_wrappers import model_wrap


@frozen(kw_only=True)
class CountingConfig(AgentConfig):
    """Counts the steps of episodes in its recurrent state."""

    def build(self, ctx: Any, **parts: Any) -> Any:
        return CountingAgent(self, ctx, **parts)


class CountingAgent(AgentBase):
    """Its value is the first part of the observation plus 100 times the steps before it."""

    def reset_hidden_state(self, num_workers: int) -> Any:
        return np.zeros((num_workers, 1), np.float32)

    def action_generator(
        self, observations: Any, hidden_state: Any, masks: Any, deterministic: bool = False
    ) -> Mapping[str, Any]:
        hidden = hidden_state * masks
        count = len(observations)
        drawn = stream("policy/collect").integers(0, 3, count)
        return {
            "actions": np.zeros(count, np.int64) if deterministic else drawn,
            "hidden_state": hidden + 1,
            "artifacts": {"values": observations[:, 0] + 100 * hidden[:, 0]},
        }

    def loss(self, batch: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        return {"total_loss": self._model(batch["/observations"])["value"].square().mean()}


@frozen(kw_only=True)
class PPOAgentConfig(AgentConfig):
    """PPO."""

    clip_param: float = option(0.2, "how far the ratio of probabilities may be from 1", gt=0)

    def build(self, ctx: Any, **parts: Any) -> Any:
        return PPOAgent(self, ctx, **parts)


class PPOAgent(AgentBase):
    """PPO with discrete actions."""

    def action_generator(
        self, observations: Any, hidden_state: Any, masks: Any, deterministic: bool = False
    ) -> Mapping[str, Any]:
        output = self._model(self.tensor(observations))
        noise = 0.0
        if not deterministic:
            noise = self.tensor(stream("policy/collect").gumbel(size=output["logit"].shape))
        action = (output["logit"] + noise).argmax(-1)
        log_p, _ = log_prob_entropy(output, action)
        return {"actions": action, "artifacts": {"values": output["value"], "action_log_p": log_p}}

    def loss(self, batch: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        of = f"/agents/{self.name}"
        output = self._model(batch["/observations"])
        log_p, _ = log_prob_entropy(output, batch[f"{of}/actions"].long())
        ratio = (log_p - batch[f"{of}/artifacts/action_log_p"][:, 0]).exp()
        advantage = batch[f"{of}/artifacts/advantages"][:, 0]
        clipped = ratio.clamp(1 - self._cfg.clip_param, 1 + self._cfg.clip_param)
        error = output["value"] - batch[f"{of}/artifacts/returns"][:, 0]
        loss = error.square().mean() / 2 - torch.min(ratio * advantage, clipped * advantage).mean()
        return {"total_loss": loss, "value_loss": error.square().mean()}


@frozen(kw_only=True)
class QAgentConfig(AgentConfig):
    """Q-learning with a target network."""

    def build(self, ctx: Any, **parts: Any) -> Any:
        return QAgent(self, ctx, **parts)


class QAgent(AgentBase):
    """Learns the value of each action from samples of the whole memory."""

    def _init_learn(self) -> None:
        super()._init_learn()
        self._averager = model_wrap(self._model, "target", update_type="momentum", theta=0.05)

    def action_generator(
        self, observations: Any, hidden_state: Any, masks: Any, deterministic: bool = False
    ) -> Mapping[str, Any]:
        action = self._model(self.tensor(observations))["logit"].argmax(-1).numpy()
        if not deterministic:
            drawn = stream("policy/collect").integers(0, 2, len(action))
            action = np.where(stream("policy/collect").random(len(action)) < 0.3, drawn, action)
        return {"actions": action}

    def loss(self, batch: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        action = batch["/agents/agent/actions"].long()
        q = self._model(batch["/observations"])["logit"].gather(1, action)
        with torch.no_grad():
            after = self._averager(batch["/observations_2"])["logit"].amax(1, keepdim=True)
        target = batch["/rewards"] + self._cfg.discount_factor * batch["/masks_2"] * after
        return {"total_loss": (q - target).square().mean()}

    def step(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        found = super().step(batch)
        self._averager.update(self._flat)
        return found

    def _state_dict_learn(self) -> dict[str, Any]:
        return {**super()._state_dict_learn(), "averager": self._averager.state_dict()}

    def _load_state_dict_learn(self, state: Mapping[str, Any]) -> None:
        super()._load_state_dict_learn(state)
        self._averager.load_state_dict(state["averager"])


class Pair(gymnasium.Env[Any, Any]):
    """Shows two bits; each agent is rewarded for naming its own. One step is an episode of four."""

    observation_space = gymnasium.spaces.Box(0, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Dict(
        {"left": gymnasium.spaces.Discrete(2), "right": gymnasium.spaces.Discrete(2, start=5)}
    )

    def _show(self) -> Any:
        self._bits = self.np_random.integers(0, 2, 2).astype(np.float32)
        return self._bits.copy()

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self._left = 4
        return self._show(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains({k: np.int64(v) for k, v in action.items()})
        hits = int(action["left"]) == self._bits[0], int(action["right"]) - 5 == self._bits[1]
        self._left -= 1
        info = {"hits": float(sum(hits))}
        return self._show(), float(sum(hits)), self._left == 0, False, info


@frozen(kw_only=True)
class PairTeamConfig(TeamConfig):
    """Two agents."""
