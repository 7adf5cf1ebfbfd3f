"""What algorithms with decentralised actors and centralised Q networks share.

The target of agent a, of its own reward:

    y_a = r_a + gamma_k (1 - done_a) V'_a(s'),  done_a = done, or 1 if a does not act in s'

Where the reward is one number R of the team, its return goes on when an agent has left, as those
that remain estimate it, and samples cross steps in which nobody acts (see `BridgedSamples`):

    y_a = R + gamma_k (1 - done) W_a,  W_a = V'_a(s'), or mean_{b acts in s'} V'_b(s')

After an episode was cut off, agents that would have acted count as acting. Losses are means over
the agents that act; rows of the others, whatever is in them, count as zeros. With a memory, samples
are sequences, and the memory of actors and that of critics learn each by its own loss.

Shapes: B samples, A agents, k numbers of an action (discrete ones: one-hot), E Q networks, K ready
environments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, Tree
from dicore.errors import UsageError
from dicore.interfaces.policy import Tail
from dicore_agents.models.observations import (
    mean_of_acting,
    only_acting,
    value_of_team,
    weight_of_acting,
)
from dicore_agents.models.team_memory import PartOfMemory
from dicore_agents.models.team_q import TeamQAC
from dicore_agents.policies.continuous.config import TeamQACPolicyConfig
from dicore_agents.policies.memory import (
    RememberingPolicy,
    acting_steps,
    as_sequences,
    as_steps,
)
from dicore_agents.policies.samples import own_samples, with_own_rewards
from dicore_plugins.functional import (
    allowed,
    greedy,
    proportional,
    sequence_priority,
    softmax,
    uniform,
)
from dicore_plugins.policies import ContinuousQPolicy, Policy

__all__ = ["DiscreteTeamPolicy", "TeamQACPolicy"]


class TeamQACPolicy(RememberingPolicy, ContinuousQPolicy):
    """Base class: samples with an axis of agents, targets and losses of critics."""

    config_class: ClassVar[type[PolicyConfig]] = TeamQACPolicyConfig
    _cfg: TeamQACPolicyConfig
    discrete: ClassVar[bool] = False
    """Each agent chooses one of some actions."""
    soft: ClassVar[bool] = False
    """Needs a network that is `soft`."""
    kept: ClassVar[tuple[str, ...]] = ("prev_state",)

    def _checked_model(self, model: nn.Module) -> nn.Module:
        model = Policy._checked_model(self, model)  # noqa: SLF001 - the base checks other networks
        wanted = f"TeamQAC(discrete={self.discrete}, soft={self.soft})"
        found = type(model).__name__
        if isinstance(model, TeamQAC):
            if (model.discrete, model.soft) == (self.discrete, self.soft):
                return model
            found = f"{found}(discrete={model.discrete}, soft={model.soft})"
        raise UsageError(
            f"model: {type(self).__name__} needs a {wanted}, got a {found}",
            hint="derive it from dicore_agents.TeamQAC; policies of discrete actions have"
            " classes of their own",
        )

    # ---- acting

    def _init_collect(self) -> None:
        super()._init_collect()
        self._collect_model = self._remembering(self._actor)

    def _init_eval(self) -> None:
        super()._init_eval()
        self._eval_model = self._remembering(self._actor)

    def _outputs(self, batch: EnvBatch[Tree], *, explores: bool) -> Columns:
        if not self._recurrent:
            return super()._outputs(batch, explores=explores)
        model = self._collect_model if explores else self._eval_model
        found: Columns = model.forward(batch.value, env_id=batch.env_id)
        return found

    # ---- learn

    def _critic_loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Computes the loss, the priority [B] and the Q values, of steps or of sequences."""
        if not self._recurrent:
            return self._loss_of_steps(batch, weight)
        rows, learning = len(batch), PartOfMemory(self._model, "critic")
        steps = as_steps(batch, learning, self._target_model, self._cfg)
        weight = None if weight is None else weight.repeat(len(steps) // rows)
        loss, priority, q = self._loss_of_steps(steps, weight)
        return loss, sequence_priority(priority.view(-1, rows).T), q

    def _remembered(self, batch: Batch) -> Batch:
        """Returns the steps of a batch that actors learn from, with what agents remember."""
        if not self._recurrent:
            return batch
        return acting_steps(batch, PartOfMemory(self._model, "actor"), self._cfg)

    def _next_obs(self, batch: Batch) -> Tree:
        """Returns what `_next_value` sees."""
        return batch["next_obs"]

    def _loss_of_steps(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        q = self._q_taken(batch)
        error = q - self._target(batch)
        factor = weight_of_acting(batch["obs"])
        squares = error.square() if weight is None else error.square() * weight.unsqueeze(1)
        loss = (squares if factor is None else squares * factor).mean((1, 2)).sum()
        priority = mean_of_acting(error.detach().abs().mean(0), batch["obs"])
        return loss, priority, q if factor is None else q * factor

    def _target(self, batch: Batch) -> Tensor:
        """Computes y of each agent: float32 [B, A]."""
        cfg = self._cfg
        with torch.no_grad():
            value = self._next_value(self._next_obs(batch))
            going = torch.ones_like(batch["done"]) if cfg.learn.ignore_done else 1 - batch["done"]
            factor = going * batch.get("value_gamma", cfg.discount_factor**cfg.nstep)
            value = factor.unsqueeze(1) * value
            reward, later = batch["reward"], batch["next_obs"]
            if reward.dim() == 1:
                target: Tensor = reward.unsqueeze(1) + value_of_team(value, later)
            else:
                target = only_acting(reward, batch["obs"]) + only_acting(value, later)
            return target

    def _unit_action(self, action: Tensor) -> Tensor:
        """Scales actions of the environment to [-1, 1]: float32 [B, A, k]."""
        return super()._unit_action(action).view(-1, self._model.agents, self._model.width)

    # ---- samples

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Converts a block to steps, n-step samples or sequences; rewards [B, ...] or [.., A]."""
        if self._recurrent:
            own = with_own_rewards(block)
            return as_sequences(own, self._cfg, self._model.hidden_shape, tail)
        if self._crosses(block):
            return self._bridged_samples(block, tail)
        return own_samples(block, self._cfg.nstep, self._cfg.discount_factor, tail)


class DiscreteTeamPolicy(TeamQACPolicy):
    """Agents that choose one of k actions each, with the probabilities of their logits."""

    discrete: ClassVar[bool] = True
    draws: ClassVar[tuple[str, ...]] = ("_gumbel",)

    def _unit_action(self, action: Tensor) -> Tensor:
        """Returns actions [B, A] one-hot: float32 [B, A, k]."""
        return F.one_hot(action.long(), self._model.width).float()

    def _gumbel(self, like: Tensor) -> Tensor:
        """Draws standard Gumbel noise in the shape of a tensor; argmax(logit + noise) samples."""
        drawn = self._noise.gumbel(size=tuple(like.shape)).astype(np.float32)
        return torch.from_numpy(drawn).to(self._device)

    def _forward_collect(self, obs: Mapping[int, Tree], **unknown: Any) -> EnvBatch[Columns]:
        """Samples actions, int64 [K, A].

        Raises:
            UsageError: a keyword argument is passed.
        """
        self._refuse(unknown)
        batch = EnvBatch.of(obs)
        output = self._outputs(batch, explores=True)
        logit, mask = _choices(output["logit"], batch.value)
        noise = uniform(self._rng, (len(logit),), logit)
        return self._acted(batch, output, proportional(softmax(logit, mask=mask), noise))

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        batch = EnvBatch.of(obs)
        output = self._outputs(batch, explores=False)
        return self._acted(batch, output, greedy(*_choices(output["logit"], batch.value)))

    def _acted(self, batch: EnvBatch[Tree], output: Columns, action: Any) -> EnvBatch[Columns]:
        kept = {key: output[key] for key in self.kept if key in output}
        return batch.with_value({"action": action.reshape(len(batch), -1), **kept})


def _choices(logit: Any, obs: Tree) -> tuple[Any, Any]:
    """Returns logits [K * A, k], and which actions are allowed, bool [K * A, k] (None: all)."""
    logit, mask = logit.reshape(-1, logit.shape[-1]), obs.get("action_mask")
    return logit, None if mask is None else allowed(mask.reshape(logit.shape), logit)


def one_hot(logit: Tensor) -> Tensor:
    """Returns which of logits [..., k] is the largest, float32 of the same shape."""
    return F.one_hot(logit.argmax(-1), logit.shape[-1]).float()
