"""Updates of SAC, TD3 and DDPG for S seeds at once; the equations are those of their policies.

Shapes: S seeds, B samples, A dimensions of an action, F features, E Q networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dicore.data import Batch
from dicore.interfaces.policy import LearnMode
from dicore_plugins.functional.distributional import quantile_target
from dicore_plugins.functional.distributions import squashed_gaussian, squashed_gaussian_and_pull
from dicore_plugins.functional.samples import to_batch, weight_of
from dicore_plugins.functional.td import bridged
from dicore_plugins.models.qac.model import LOG_STD, QAC
from dicore_plugins.policies.base import Results
from dicore_tools.together.learning import (
    Settings,
    attributes_of,
    per_seed,
    rows_of,
    stacked,
)
from dicore_tools.together.networks import Stack, StackedMLP, stacked_ensemble, stacked_mlp
from dicore_tools.together.optimizers import step_all

__all__ = ["JointSAC", "JointTD3"]

_USED = ("action", "reward", "done", "value_gamma", "weight", "IS")


class _JointActorQ:
    """What SAC and TD3 share: critics and their target, for S seeds.

    Args:
        modes: The learn mode of each.
    """

    def __init__(self, modes: Sequence[LearnMode]) -> None:
        self._modes = tuple(modes)
        of = attributes_of(modes)
        self._cfg: Any = of("cfg")[0]
        self._models: list[QAC] = of("model")
        self._noises, self._scale = of("noise"), of("actions")[0]
        self._optimizers: list[dict[str, Any]] = of("optimizers")
        flats, targets = of("flats"), of("target_flats")
        self._stacks = {name: Stack([each[name] for each in flats]) for name in flats[0]}
        self._target_stacks = {
            name: Stack([each[name] for each in targets]) for name in ("actor", "critic")
        }
        model, target = self._models[0], of("target_model")[0]
        self._actor = stacked_mlp(model.actor, self._stacks["actor"])
        self._critics = stacked_ensemble(model.critic, self._stacks["critic"])
        self._target_actor = stacked_mlp(target.actor, self._target_stacks["actor"])
        self._target_critics = stacked_ensemble(target.critic, self._target_stacks["critic"])

    @torch.no_grad()
    def update(self, batches: Sequence[Batch], settings: Sequence[Settings]) -> list[Results]:
        """Runs one update of critics and actor of each; see `JointLearner`."""
        rows = [to_batch(each) for each in batches]
        for model, row in zip(self._models, rows, strict=True):
            if model.obs_norm is not None:
                model.obs_norm.update(model.encode.vector(row["obs"]))
        columns = stacked([Batch({key: row[key] for key in _USED if key in row}) for row in rows])
        obs, next_obs = (self._features(rows, name) for name in ("obs", "next_obs"))
        action = self._scale.unit(columns["action"].flatten(2))
        target = self._target(columns, next_obs)
        rates = self._rates()
        loss, priority, value = self._update_critics(columns, torch.cat((obs, action), 2), target)
        counts = [mode.get_attribute("update_count") + 1 for mode in self._modes]
        for mode, count in zip(self._modes, counts, strict=True):
            mode.set_attribute("update_count", count)
        found = per_seed(total_loss=loss, critic_loss=loss, q_value=value, priority=priority)
        more = self._update_actors(obs, counts)
        return [
            {"cur_lr": rate, **each, **of_actor}
            for rate, each, of_actor in zip(rates, found, more, strict=True)
        ]

    def _rates(self) -> list[float]:
        """Sets the learning rates of this update; returns that of each seed."""
        learn = self._cfg.learn
        if learn.learning_rate_end == 1:
            return [float(learn.learning_rate)] * len(self._modes)
        rates = [float(mode.get_attribute("decayed_rate")) for mode in self._modes]
        for rate, optimizers in zip(rates, self._optimizers, strict=True):
            for optimizer in optimizers.values():
                optimizer.learning_rate = rate
        return rates

    def _features(self, rows: Sequence[Batch], name: str) -> Tensor:
        """Encodes observations: float32 [S, B, F]."""
        pairs = zip(self._models, rows, strict=True)
        return torch.stack([model.encode.forward(row[name]) for model, row in pairs])

    def _target(self, columns: dict[str, Any], next_obs: Tensor) -> Tensor:
        """Computes y: float32 [S, B]."""
        cfg, value = self._cfg, self._next_value(next_obs)
        names = [name for name in ("reward", "done", "value_gamma") if name in columns]
        rows = rows_of({name: columns[name] for name in names})
        found = bridged(rows, cfg.discount_factor, cfg.nstep, ignore_done=cfg.learn.ignore_done)
        return quantile_target(value.reshape(-1, 1), *found).view(value.shape)

    def _next_value(self, next_obs: Tensor) -> Tensor:
        """Computes V' of the next states: float32 [S, B]."""
        raise NotImplementedError

    def _update_actors(self, obs: Tensor, counts: Sequence[int]) -> list[Results]:
        """Updates actors and target networks; returns the results of each seed."""
        raise NotImplementedError

    def _update_critics(
        self, columns: dict[str, Any], x: Tensor, target: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Updates the Q networks; returns losses [S], priorities [S, B] and mean values [S]."""
        weight = weight_of(Batch(columns), sampled=self._cfg.priority_IS_weight)
        losses: Any = 0.0
        priorities: Any = 0.0
        values: Any = 0.0
        for critic in self._critics:
            q, pull = critic.forward_and_pull(x)
            error = q.squeeze(2) - target
            weighted = error if weight is None else error * weight
            pull((weighted * (2 / error.shape[1])).unsqueeze(2))
            losses = losses + (weighted * error).mean(1)
            priorities, values = priorities + error.abs_(), values + q.mean((1, 2))
        step_all([each["critic"] for each in self._optimizers], losses)
        count = len(self._critics)
        return losses, priorities / count, values / count

    def _normal(self, like: Tensor) -> Tensor:
        """Draws standard normal noise [S, B, A], of each seed from its own stream."""
        shape = tuple(like.shape[1:])
        drawn = [each.standard_normal(shape, np.float32) for each in self._noises]
        return torch.from_numpy(np.stack(drawn))

    def _move_targets(self, rows: Sequence[int], *names: str) -> None:
        """Moves parts of the target networks of some seeds towards the networks."""
        theta = self._cfg.learn.target_theta
        for name in names:
            target, data = self._target_stacks[name].data, self._stacks[name].data
            if len(rows) == len(data):
                target.lerp_(data, theta)
            else:
                target[rows] = torch.lerp(target[rows], data[rows], theta)


class JointSAC(_JointActorQ):
    """The learn modes of SAC of S seeds."""

    def __init__(self, modes: Sequence[LearnMode]) -> None:
        super().__init__(modes)
        self._wanted: float = attributes_of(modes)("target_entropy")[0]

    @property
    def _alpha(self) -> Tensor:
        """The temperatures, float32 [S, 1]."""
        stack = self._stacks.get("alpha")
        if stack is not None:
            return stack.data.exp()
        return torch.full((len(self._modes), 1), float(self._cfg.learn.alpha))

    def _policy(self, output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Returns means, log standard deviations, and these before they are clipped."""
        mean, raw = output.chunk(2, -1)
        return mean, raw.clamp(*LOG_STD), raw

    def _next_value(self, next_obs: Tensor) -> Tensor:
        mean, log_std, _ = self._policy(self._actor.forward(next_obs))
        action, log_prob = squashed_gaussian(mean, log_std, self._normal(mean))
        least = _least(self._target_critics, torch.cat((next_obs, action), 2))
        return torch.addcmul(least, self._alpha, log_prob, value=-1)

    def _update_actors(self, obs: Tensor, counts: Sequence[int]) -> list[Results]:
        alpha, size = self._alpha, obs.shape[1]
        output, pull = self._actor.forward_and_pull(obs)
        mean, log_std, raw = self._policy(output)
        action, log_prob, pull_sample = squashed_gaussian_and_pull(
            mean, log_std, self._normal(mean)
        )
        pairs = [each.forward_and_pull(torch.cat((obs, action), 2)) for each in self._critics]
        least, index = torch.cat([q for q, _ in pairs], 2).min(2)
        of_action: Any = 0.0
        for number, (_, pull_q) in enumerate(pairs):
            slope = torch.where(index == number, -1 / size, 0.0).unsqueeze(2)
            of_action = of_action + _of_action(pull_q(slope, wanted=True, frozen=True), obs)
        of_mean, of_log_std = pull_sample(of_action, (alpha / size).expand(log_prob.shape))
        pull(torch.cat((of_mean, of_log_std * (log_std == raw)), 2))
        loss, entropy = (alpha * log_prob - least).mean(1), -log_prob.mean(1)
        step_all([each["actor"] for each in self._optimizers], loss)
        if "alpha" in self._stacks:
            self._stacks["alpha"].grad.copy_((entropy - self._wanted).unsqueeze(1))
            step_all([each["alpha"] for each in self._optimizers], torch.zeros_like(loss))
        self._move_targets(range(len(counts)), "critic")
        return per_seed(actor_loss=loss, alpha=alpha.squeeze(1), entropy=entropy)


class JointTD3(_JointActorQ):
    """The learn modes of TD3, or of DDPG, of S seeds."""

    def _next_value(self, next_obs: Tensor) -> Tensor:
        learn = self._cfg.learn
        action = self._target_actor.forward(next_obs).tanh()
        if learn.target_noise:
            noise = self._normal(action) * learn.target_noise
            limit = learn.target_noise_clip
            action = (action + noise.clamp(-limit, limit)).clamp(-1.0, 1.0)
        return _least(self._target_critics, torch.cat((next_obs, action), 2))

    def _update_actors(self, obs: Tensor, counts: Sequence[int]) -> list[Results]:
        due = [
            row for row, count in enumerate(counts) if not count % self._cfg.learn.actor_update_freq
        ]
        results: list[Results] = [{"actor_loss": None} for _ in counts]
        if not due:
            return results
        mean, pull = self._actor.forward_and_pull(obs)
        action = mean.tanh()
        q, pull_q = self._critics[0].forward_and_pull(torch.cat((obs, action), 2))
        slope = torch.full_like(q, -1 / q.shape[1])
        of_action = _of_action(pull_q(slope, wanted=True, frozen=True), obs)
        pull(torch.ops.aten.tanh_backward(of_action, action))
        loss = -q.mean((1, 2))
        step_all([self._optimizers[row]["actor"] for row in due], loss[due])
        self._move_targets(due, "actor", "critic")
        for row in due:
            results[row] = {"actor_loss": loss[row]}
        return results


def _least(critics: Sequence[StackedMLP], x: Tensor) -> Tensor:
    """Computes the least value of several Q networks: float32 [S, B]."""
    values = [critic.forward(x) for critic in critics]
    return torch.cat(values, 2).amin(2)


def _of_action(grad: Tensor | None, obs: Tensor) -> Tensor:
    """Returns the gradient of the action, of that of observation and action."""
    assert grad is not None
    return grad[:, :, obs.shape[2] :]
