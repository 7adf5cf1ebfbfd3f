"""What algorithms share that learn the value of each agent's actions.

Agents act epsilon-greedily by their own values. The reward of a team is the sum over its agents
where the environment gives each its own.

Shapes: B rows, A agents, n actions, K ready environments.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, Tree
from dicore.errors import UsageError
from dicore.interfaces.policy import Tail
from dicore.run.random import stream
from dicore_agents.models.agent_q import AgentQ
from dicore_agents.models.mixers import VDNMixer
from dicore_agents.models.observations import weight_of_acting
from dicore_agents.policies.memory import RememberingPolicy, as_sequences, as_steps
from dicore_agents.policies.samples import SumOfRewards
from dicore_agents.policies.value.config import TeamQConfig
from dicore_plugins.functional import (
    allowed,
    eps_greedy,
    greedy,
    legal,
    nstep_samples,
    sequence_priority,
    transitions,
    uniform,
)
from dicore_plugins.policies import DQNPolicy

__all__ = ["AgentQPolicy"]


class AgentQPolicy(RememberingPolicy, DQNPolicy):
    """Base class: acting, samples with an axis of agents, and their targets.

    A subclass computes `_team_loss`. The network is an `AgentQ`.
    """

    config_class: ClassVar[type[PolicyConfig]] = TeamQConfig
    _cfg: TeamQConfig

    def _check_values(self, model: nn.Module) -> None:
        if not isinstance(model, AgentQ):
            raise UsageError(
                f"model: expected an AgentQ, got {type(model).__name__}",
                hint="derive it from dicore_agents.models.AgentQ",
            )

    of_team: ClassVar[bool] = True
    ends_with_agents: bool = False
    """Whether the episode ends where no agent would act next, as that of a group does.

    Else values of the team cross steps in which nobody acts, whose rewards count.
    """

    @property
    def bridges(self) -> bool:
        """Whether samples cross steps in which nobody acts, where no mixer knows the state."""
        added = isinstance(getattr(self._model, "mixer", None), VDNMixer)
        return (added or not self.of_team) and super().bridges and not self.ends_with_agents

    @cached_property
    def _sum(self) -> SumOfRewards:
        return SumOfRewards()

    # ---- acting

    def _init_collect(self) -> None:
        self._actor = self._make_actor()
        self._collect_model = self._remembering(self._actor)
        self._rng = stream("policy/collect")

    def _init_eval(self) -> None:
        self._actor = getattr(self, "_actor", None) or self._make_actor()
        self._eval_model = self._remembering(self._actor)

    def _forward_collect(
        self, obs: Mapping[int, Tree], eps: Any = None, **unknown: object
    ) -> EnvBatch[Columns]:
        """Selects epsilon-greedy actions, int64 [K, A]; each agent draws for itself.

        Args:
            obs: `{env_id: obs}` of K environments.
            eps: Probability of a random action: one number, one per observation, or a dict by
                env id; None: the final value of the schedule.
            **unknown: Raises UsageError; catches a misspelt `eps`.

        Raises:
            UsageError: another keyword argument is passed.
        """
        if unknown:
            raise UsageError(
                f"unknown argument '{min(unknown)}' of the collect mode of {self}; expected 'eps'",
                hint="pass policy_kwargs={'eps': 0.1}",
            )
        batch = EnvBatch.of(obs)
        eps = self._cfg.other.eps.end if eps is None else eps
        if isinstance(eps, Mapping):
            eps = [eps[env_id] for env_id in batch.env_id.tolist()]
        output, mask = self._rows(self._collect_model, batch)
        logit = output["logit"]
        chance = np.broadcast_to(np.asarray(eps, np.float64).reshape(-1, 1), logit.shape[:2])
        coin, noise = uniform(self._rng, (2, logit.shape[0] * logit.shape[1]), logit)
        rows = logit.reshape(-1, logit.shape[-1])
        action = eps_greedy(rows, chance.reshape(-1), coin, noise, mask)
        return batch.with_value({**output, "action": action.reshape(logit.shape[:2])})

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        batch = EnvBatch.of(obs)
        output, mask = self._rows(self._eval_model, batch)
        logit = output["logit"]
        action = greedy(logit.reshape(-1, logit.shape[-1]), mask)
        return batch.with_value({**output, "action": action.reshape(logit.shape[:2])})

    def _rows(self, model: Any, batch: EnvBatch[Any]) -> tuple[Columns, Any]:
        """Returns outputs, `logit` [K, A, n], and what is allowed, bool [K * A, n] (None: all)."""
        ids = {"env_id": batch.env_id} if self._recurrent else {}
        output: Columns = model.forward(batch.value, **ids)
        mask, logit = batch.value.get("action_mask"), output["logit"]
        if mask is None:
            return output, None
        rows = logit.reshape(-1, logit.shape[-1])
        return output, allowed(mask.reshape(rows.shape), rows)

    # ---- samples

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Converts a block to steps, n-step samples or sequences; rewards [B, ...] or [.., A]."""
        if self.of_team:
            self._sum.see(block, self._cfg.type)
        if self._recurrent:
            return as_sequences(block, self._cfg, self._model.hidden_shape, tail)
        if self._crosses(block):
            return self._bridged_samples(block, tail)
        if self._cfg.nstep == 1:
            return transitions(block, tail)
        return nstep_samples(block, self._cfg.nstep, self._cfg.discount_factor, tail)

    # ---- learning

    def _loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the loss, the priority [B] and the target [B] of steps, or of sequences."""
        if not self._recurrent:
            return self._team_loss(batch, self._step_weight(batch, weight))
        rows = len(batch)
        steps = as_steps(batch, self._model, self._target_model, self._cfg)
        factor = self._step_weight(
            steps, None if weight is None else weight.repeat(len(steps) // rows)
        )
        loss, error, target = self._team_loss(steps, factor)
        if self.ends_with_agents:
            error = _of_acting(error, steps)
        return loss, sequence_priority(error.view(-1, rows).T), target.view(-1, rows).mean(0)

    def _team_loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the loss, the TD error [B] and the target [B] of single steps."""
        raise NotImplementedError

    def _returns(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor | float]:
        """Returns scaled rewards [B] or [B, A], where to go on [B], gamma^k ([B], or a number)."""
        cfg, done, reward = self._cfg, batch["done"], batch["reward"]
        going = torch.ones_like(done) if cfg.learn.ignore_done else 1 - done
        gamma: Tensor | float = batch.get("value_gamma", cfg.discount_factor**cfg.nstep)
        scale = getattr(cfg.learn, "reward_scale", 1.0)  # sections of strangers may lack it
        return reward if scale == 1 else reward * scale, going, gamma

    def _team_target(self, batch: Batch, value: Tensor) -> Tensor:
        """Computes y of the team from the values [B] of the next states: float32 [B]."""
        reward, going, gamma = self._returns(batch)
        reward = reward if reward.dim() == 1 else reward.sum(1)
        return reward + gamma * going * value

    def _values(self, model: Any, obs: Tree) -> Tensor:
        """Computes values [B, A, n], least where actions are forbidden."""
        found: Tensor = legal(model.q(obs), obs)
        return found

    def _best_next(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Returns the next values of the target network [B, A, n], and best actions [B, A].

        With double Q-learning, the network that learns selects the actions.
        """
        later = self._values(self._target_model, batch["next_obs"])
        if not self._cfg.learn.double:
            return later, later.argmax(-1)
        chooser = self._values(self._model, batch.get("chooser_obs", batch["next_obs"]))
        return later, chooser.argmax(-1)

    def _agent_weight(self, batch: Batch, weight: Tensor | None) -> Tensor | None:
        """Returns the factors [B, A] of losses of agents, whose mean is over those that act."""
        factor = weight_of_acting(batch["obs"])
        if weight is None:
            return factor
        each = weight.unsqueeze(1).expand(-1, batch["action"].shape[1])
        return each if factor is None else factor * each

    def _step_weight(self, steps: Batch, weight: Tensor | None) -> Tensor | None:
        """Returns factors [B] of losses whose mean is over steps in which some act; None: 1.

        Sequences of a group hold steps in which it is gone, and `teaching_nothing` makes samples.
        Losses of single agents have means of their own, see `_agent_weight`.
        """
        counts = self.of_team and (self.ends_with_agents or self.bridges)
        alive = steps["obs"].get("alive") if counts else None
        some = None if alive is None else (alive != 0).any(1)
        if some is None or bool(some.all()):
            return weight
        factor: Tensor = some * (len(some) / some.sum().clamp(min=1))
        return factor if weight is None else factor * weight


def _of_acting(error: Tensor, steps: Batch) -> Tensor:
    """Returns errors [B], 0 of steps in which nobody acts, which no update makes smaller."""
    alive = steps["obs"].get("alive")
    return error if alive is None else torch.where((alive != 0).any(1), error, 0.0)
