"""HAPPO: heterogeneous-agent PPO (Kuba et al. 2022, arXiv:2109.11251, algorithm 4).

Agents with networks of their own learn one after another, in a random order of each collect. The
one whose turn it is weighs the advantage of the team by how the earlier ones have changed:

    M = prod_{earlier j} pi_j(u_j|o_j) / pi_j,old(u_j|o_j)
    L_a = -mean min(r_a M A, clip(r_a, 1 - c, 1 + c) M A) - weight * H(pi_a)

The reward of the team is the sum over its agents where the environment gives each its own; its
return goes on when an agent has left, see `with_team_values`. The critic learns last. Each agent
has moments of its own in the optimizer, over all parameters: where the gradient is 0 from the
start, parameters stay.

With a memory, samples are sequences; the memory of an agent learns with its actions, and the critic
reads what agents remember without changing it.

Shapes: B samples, or sequences of L steps, A agents, R steps in which the agent acts.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, State, StateDict
from dicore_agents.policies.actor_critic.base import (
    acting,
    descend,
    with_normal_advantages,
)
from dicore_agents.policies.actor_critic.config import HAPPOConfig
from dicore_agents.policies.actor_critic.ppo import TeamPPOPolicy
from dicore_plugins.functional import happo_factor, log_prob_entropy, ppo_policy_error
from dicore_plugins.optimizers import optimizer_of

__all__ = ["HAPPOPolicy"]


class HAPPOPolicy(TeamPPOPolicy):
    """PPO of agents one after another."""

    config_class: ClassVar[type[PolicyConfig]] = HAPPOConfig
    of_team: ClassVar[bool] = True
    apart: ClassVar[bool] = False
    _cfg: HAPPOConfig

    def _init_learn(self) -> None:
        super()._init_learn()
        learn = self._cfg.learn
        self._agent_optimizers = [
            optimizer_of(learn, self._flat) for _ in range(self._model.agents)
        ]

    def _updates(self, batch: Batch, **settings: float) -> list[Any]:
        found, valued = self._parts(batch)
        results = [] if found is None else self._actor_updates(found, settings)
        if valued is None:
            return results
        for _ in range(self._cfg.learn.epoch_per_collect):
            parts = self._minibatches(valued, self._cfg.learn.batch_size)
            results += [self._critic_update(each) for each in parts]
        return results

    def _actor_updates(self, batch: Batch, settings: dict[str, float]) -> list[dict[str, Any]]:
        """Runs the passes of one agent after another."""
        batch = with_normal_advantages(batch) if self._cfg.learn.adv_norm else batch
        factor = torch.ones_like(batch["advantage"][..., 0])
        results: list[Any] = []
        for agent in self._order.permutation(self._model.agents).tolist():
            weighed = {"advantage": batch["advantage"] * factor.unsqueeze(-1)}
            columns = Batch({**batch.columns, **weighed}, len(batch))
            results += self._agent_updates(agent, columns, settings)
            factor = self._next_factor(agent, batch, factor)
        return results

    def _agent_updates(
        self, agent: int, batch: Batch, settings: dict[str, float]
    ) -> list[dict[str, Any]]:
        """Runs the passes of one agent; fewer if the KL divergence exceeds `target_kl`."""
        learn = self._cfg.learn
        results: list[dict[str, Any]] = []
        optimizer = self._agent_optimizers[agent]
        optimizer.learning_rate = self._optimizer.learning_rate
        for _ in range(learn.epoch_per_collect):
            for part in self._minibatches(batch, learn.batch_size):
                each = self._remembered(part)
                index = acting(agent, each)
                if not len(index):
                    continue
                log_prob, entropy = self._log_prob_entropy(agent, each, index)
                loss, info = ppo_policy_error(
                    log_prob,
                    each["log_prob"][index, agent],
                    each["advantage"][index, agent],
                    clip_ratio=settings.get("clip_ratio", learn.clip_ratio),
                    dual_clip=learn.dual_clip,
                )
                if self._is_far(info._asdict()):
                    return results
                weight = settings.get("entropy_weight", learn.entropy_weight)
                total = loss - weight * entropy.mean()
                descend(optimizer, total)
                found = {"total_loss": total, "policy_loss": loss, "entropy": entropy.mean()}
                results.append(self._result({**found, **info._asdict()}))
        return results

    def _log_prob_entropy(self, agent: int, batch: Batch, index: Tensor) -> tuple[Tensor, Tensor]:
        obs = {name: each[index] for name, each in batch["obs"].items()}
        mask = obs.get("action_mask")
        action = self._action_index(batch)[:, agent][index]
        output = self._model.distribution_of(agent, obs)
        return log_prob_entropy(output, action, None if mask is None else mask[:, agent])

    @torch.no_grad()
    def _next_factor(self, agent: int, batch: Batch, factor: Tensor) -> Tensor:
        """Multiplies the factors [B] or [B, L] by the ratio of an agent, where it acts."""
        steps = self._remembered(batch)
        index = acting(agent, steps)
        log_prob, _ = self._log_prob_entropy(agent, steps, index)
        in_time = factor.transpose(0, -1)
        found = in_time.flatten()
        found[index] = happo_factor(log_prob, steps["log_prob"][index, agent], found[index])
        return found.view(in_time.shape).transpose(0, -1)

    def _get_skipped_updates(self) -> int:
        optimizers = (self._optimizer, *self._agent_optimizers)
        return sum(each.skipped for each in optimizers)

    def _state_dict_learn(self) -> StateDict:
        states = [each.state_dict() for each in self._agent_optimizers]
        return {**super()._state_dict_learn(), "agent_optimizers": states}

    def _load_state_dict_learn(self, state: State) -> None:
        super()._load_state_dict_learn(state)
        for each, given in zip(self._agent_optimizers, state["agent_optimizers"], strict=True):
            each.load_state_dict(given)
