"""DreamerV3 (Hafner et al. 2023, arXiv:2301.04104): a world model, and an actor in its dreams.

The world model learns from sequences of steps, from the latent state that was stored when acting:

    L = -ln p(x_t | h_t, z_t) - ln p(r_t | h_t, z_t) - ln p(c_t | h_t, z_t)
        + 0.5 max(1, KL(sg(q) || p)) + 0.1 max(1, KL(q || sg(p)))

Actor and critic learn from imagined steps alone, both kinds of actions by Reinforce:

    L_actor = -sum_t w_t (ln pi(a_t | s_t) sg(R_t - v_t) / max(1, S) + eta H(pi(s_t)))
    L_critic = -sum_t w_t (ln p(R_t | s_t) + ln p(v'_t | s_t))

R are lambda-returns, S the averaged range of 90 % of them, v' the slow critic, w_t the discounts of
the steps before. Optimizers are those of the first version: Adam, one for the world model and one
for both others, with clipped gradients; LaProp, adaptive clipping and the critic's loss on replayed
steps, which the second version adds, are left out.

Shapes: K ready environments, B sequences, L steps of one, M states from which H steps are imagined.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from dicore.config import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, State, StateDict, Tree
from dicore.errors import NonFiniteError, UsageError
from dicore.interfaces.policy import Tail
from dicore.run.random import stream
from dicore_plugins.functional import symlog, to_batch, transitions
from dicore_plugins.models import Flat
from dicore_plugins.optimizers import build_optimizer, optimizer_of
from dicore_plugins.policies import Actor, RecurrentPolicy, Results, UnitActions
from dicore_worlds.functional import (
    free_bits_kl,
    imagined_return,
    return_range,
    two_hot_mean,
    two_hot_nll,
)
from dicore_worlds.interface import LatentState
from dicore_worlds.models.dreamer import DreamerNet
from dicore_worlds.policies.dreamer_config import DreamerConfig

__all__ = ["DreamerPolicy"]


class DreamerPolicy(RecurrentPolicy):
    """Learns from what a latent world model imagines."""

    config_class: ClassVar[type[PolicyConfig]] = DreamerConfig
    network_class: ClassVar[type | None] = DreamerNet
    attributes: ClassVar[tuple[str, ...]] = ("actor", "update_count")
    _cfg: DreamerConfig

    @cached_property
    def _recurrent(self) -> bool:
        return True

    @cached_property
    def _unit(self) -> UnitActions | None:
        """Scales continuous actions; None: they are discrete."""
        return UnitActions(self._cfg, self._device) if self._model.continuous else None

    # ---- acting

    def _init_collect(self) -> None:
        self._actor = self._make_actor()
        self._collect_model = self._remembering(self._actor)
        self._rng = stream("policy/collect")

    def _init_eval(self) -> None:
        self._actor = getattr(self, "_actor", None) or self._make_actor()
        self._eval_model = self._remembering(self._actor)

    def _make_actor(self) -> Actor:
        if "learn" not in self._enabled:
            self._model.to(self._device)
        return Actor(_Acting(self._model), self._device, by_numpy=False)

    def _forward_collect(self, obs: Mapping[int, Tree], **unknown: object) -> EnvBatch[Columns]:
        """Draws latent states and actions."""
        if unknown:
            raise UsageError(
                f"unknown argument '{min(unknown)}' of the collect mode of {self}",
                hint="dreamer explores by the entropy of its actions; pass none",
            )
        batch = EnvBatch.of(obs)
        count, model = len(batch.env_id), self._model
        uniform = self._rng.random((count, model.rssm.groups), np.float32)
        noise = (
            self._rng.standard_normal((count, model.action_size), np.float32)
            if self._unit
            else self._rng.random((count, 1), np.float32)
        )
        output = self._collect_model.forward(batch.value, uniform, noise, env_id=batch.env_id)
        return batch.with_value(self._env_actions(output))

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        """Takes the most probable latent states and the best actions."""
        batch = EnvBatch.of(obs)
        output = self._eval_model.forward(batch.value, env_id=batch.env_id)
        return batch.with_value(self._env_actions(output))

    def _env_actions(self, output: Columns) -> Columns:
        """Converts what the actor chose to actions of the environment."""
        if self._unit is not None:
            return {**output, "action": self._unit.env(output["action"])}
        if not np.isfinite(output["logit"]).all():
            raise NonFiniteError(
                "the network returns NaN or inf",
                hint="lower policy.learn.learning_rate; the last checkpoints may be finite",
            )
        return {**output, "action": output["action"] + self._cfg.action_start}

    # ---- samples

    def _process_transition(self, obs: Tree, output: Columns, timestep: Tree) -> Columns:
        columns = super()._process_transition(obs, output, timestep)
        state = output.get("prev_state")
        if state is None:  # a warm-up policy has none
            state = np.zeros((len(timestep.done), self._model.state_size), np.float32)
        return {**columns, "prev_state": state}

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Converts a block to single steps, of which the buffer makes sequences."""
        self._need_one_reward(block)
        if "prev_state" not in block:  # recorded steps have none
            shape = (*block["end"].shape, self._model.state_size)
            zeros = np.zeros(shape, np.float32)
            block = Batch({**block.columns, "prev_state": zeros}, len(block))
        return transitions(block, tail)

    # ---- learning

    def _init_learn(self) -> None:
        learn, model = self._cfg.learn, self._model
        model.to(self._device)
        self._world_optimizer = optimizer_of(learn, Flat(model.world))
        self._behaviour_optimizer = build_optimizer(
            learn.optimizer,
            Flat(model.behaviour),
            learning_rate=learn.behaviour_learning_rate,
            max_grad_norm=learn.behaviour_max_grad_norm,
        )
        self._slow_critic = copy.deepcopy(model.behaviour["critic"]).requires_grad_(False)
        self._slow_flat = Flat(self._slow_critic)
        self._range = torch.zeros((), device=self._device)
        self._update_count = 0

    def _forward_learn(self, data: Any, **_: object) -> Results:
        """Runs one gradient update of the world model, and one of actor and critic.

        Args:
            data: B sequences [B, L, ...]: obs, action, reward, next_obs, done, `prev_state` [B, S],
                and `valid` bool [B, L] if some have less than L steps; or single steps.

        Returns:
            The losses and their parts, the mean return and the range of returns, as tensors.
        """
        batch = _sequences(to_batch(data, self._device))
        for optimizer in (self._world_optimizer, self._behaviour_optimizer):
            if not optimizer.flat.intact():
                optimizer.flat.rebind()
        world, start = self._world_loss(batch)
        _update(self._world_optimizer, world["world_loss"])
        behaviour = self._behaviour_loss(start)
        _update(self._behaviour_optimizer, behaviour["actor_loss"] + behaviour["critic_loss"])
        slow = self._slow_flat.data  # the critic's parameters come after the actor's
        slow.lerp_(self._behaviour_optimizer.flat.data[-len(slow) :], self._cfg.learn.target_theta)
        self._update_count += 1
        found = {key: value.detach() for key, value in {**world, **behaviour}.items()}
        total = found["world_loss"] + found["actor_loss"] + found["critic_loss"]
        return {"total_loss": total, **found, "cur_lr": self._world_optimizer.learning_rate}

    def _world_loss(self, batch: Batch) -> tuple[dict[str, Tensor], LatentState]:
        """Computes the losses of the world model, and the states to imagine from, [M, ...].

        Observations are the first one and those after each step, L + 1 of a sequence.
        """
        model, learn, world = self._model, self._cfg.learn, self._model.world
        before, action = model.split(batch["prev_state"])
        actions = torch.cat([action.unsqueeze(0), self._taken(batch["action"].transpose(0, 1))])
        obs = torch.cat([batch["obs"][:, :1], batch["next_obs"]], 1).transpose(0, 1)
        shape, flat = obs.shape[:2], obs.flatten(0, 1)
        seen = model.observe(model.encode(flat).unflatten(0, shape), actions, before)
        features = torch.cat(seen.state, -1)
        valid, done = batch["valid"].T, batch["done"].T * (not learn.ignore_done)
        known = torch.cat([valid[:1], valid])
        target = model.scaled(flat)
        target = target if model.sees_images else symlog(target)
        error = (model.decode(features.flatten(0, 1)) - target).square().flatten(1).sum(1)
        reward = two_hot_nll(world["reward"](features[1:]), batch["reward"].T, model.bins)
        going = world["going"](features[1:]).squeeze(-1)
        going = F.binary_cross_entropy_with_logits(going, 1 - done, reduction="none")
        dynamics, representation = free_bits_kl(seen.posterior, seen.prior, learn.free_nats)
        parts = {
            "obs_loss": _mean(error.unflatten(0, shape), known),
            "reward_loss": _mean(reward, valid),
            "going_loss": _mean(going, valid),
            "dynamics_loss": _mean(dynamics, known),
            "representation_loss": _mean(representation, known),
        }
        weights = (1.0, 1.0, 1.0, learn.dynamics_weight, learn.representation_weight)
        loss = torch.stack([w * part for w, part in zip(weights, parts.values(), strict=True)])
        alive = torch.cat([known[:1], valid & (done == 0)])
        return {"world_loss": loss.sum(), **parts}, self._starts(seen.state, alive)

    def _taken(self, action: Tensor) -> Tensor:
        """Returns actions of the environment [L, B, ...] as the model takes them: [L, B, A]."""
        if self._unit is not None:
            return self._unit.unit(action.reshape(*action.shape[:2], -1)).clamp(-1, 1)
        index = action.long() - self._cfg.action_start
        return F.one_hot(index, self._model.action_size).float()

    def _starts(self, state: LatentState, alive: Tensor) -> LatentState:
        """Returns the states of steps after which episodes went on, or some of them: [M, ...]."""
        chosen, most = alive.flatten().nonzero().squeeze(1), self._cfg.learn.max_starts
        if most is not None and most < len(chosen):
            chosen = chosen[torch.randperm(len(chosen), device=chosen.device)[:most]]
        deter, stoch = (each.detach().flatten(0, 1)[chosen] for each in state)
        return LatentState(deter, stoch)

    def _behaviour_loss(self, start: LatentState) -> dict[str, Tensor]:
        """Computes the losses of actor and critic from imagined steps."""
        model, learn = self._model, self._cfg.learn
        actor, critic = model.behaviour["actor"], model.behaviour["critic"]
        dream = model.imagine(start, self._dreamt, learn.horizon)
        features = torch.cat(dream.state, -1)
        output, value = actor(features[:-1]), critic(features[:-1])
        with torch.no_grad():
            reward = two_hot_mean(model.world["reward"](features[1:]), model.bins)
            going = torch.sigmoid(model.world["going"](features[1:])).squeeze(-1)
            discount = self._cfg.discount_factor * going
            values = two_hot_mean(torch.cat([value, critic(features[-1:])]), model.bins)
            returns = imagined_return(reward, values[1:], discount, learn.td_lambda)
            scale = self._scale(returns)
            weight = torch.cat([torch.ones_like(discount[:1]), discount[:-1]]).cumprod(0)
            slow = two_hot_mean(self._slow_critic(features[:-1]), model.bins)
        log_prob, entropy = model.log_prob(output, dream.action)
        advantage = (returns - values[:-1]) / scale
        gain = advantage * log_prob + learn.entropy_weight * entropy
        loss = two_hot_nll(value, returns, model.bins)
        near = two_hot_nll(value, slow, model.bins)
        return {
            "actor_loss": -(weight * gain).mean(),
            "critic_loss": (weight * (loss + learn.slow_critic_weight * near)).mean(),
            "imagined_return": returns.mean(),
            "return_range": scale,
            "entropy": entropy.mean(),
        }

    def _dreamt(self, state: LatentState) -> Tensor:
        """Draws actions [M, A] in imagined states."""
        model = self._model
        output = model.behaviour["actor"](torch.cat(state, -1))
        if self._unit is not None:
            noise = torch.randn(len(output), model.action_size, device=output.device)
        else:
            noise = torch.rand(len(output), 1, device=output.device)
        found: Tensor = model.sample(output, noise)
        return found

    def _scale(self, returns: Tensor) -> Tensor:
        """Adds returns to the averaged range S, and computes max(1, S)."""
        moved = self._range.lerp(return_range(returns), 1 - self._cfg.learn.return_decay)
        self._range = torch.where(moved.isfinite(), moved, self._range)
        return self._range.clamp(min=1.0)

    def _get_skipped_updates(self) -> int:
        return self._world_optimizer.skipped + self._behaviour_optimizer.skipped

    def _monitor_vars_learn(self) -> list[str]:
        return [
            *("total_loss", "world_loss", "obs_loss", "reward_loss", "going_loss", "dynamics_loss"),
            *("representation_loss", "actor_loss", "critic_loss", "entropy", "imagined_return"),
            *("return_range", "cur_lr"),
        ]

    def _state_dict_learn(self) -> StateDict:
        return {
            **self._state_dict_model(),
            "slow_critic": self._slow_critic.state_dict(),
            "world_optimizer": self._world_optimizer.state_dict(),
            "behaviour_optimizer": self._behaviour_optimizer.state_dict(),
            "return_range": self._range,
            "update_count": self._update_count,
        }

    def _load_state_dict_learn(self, state: State) -> None:
        self._load_state_dict_model(state)
        self._slow_critic.load_state_dict(state["slow_critic"])
        self._world_optimizer.load_state_dict(state["world_optimizer"])
        self._behaviour_optimizer.load_state_dict(state["behaviour_optimizer"])
        self._range = torch.as_tensor(state["return_range"], device=self._device).clone()
        self._update_count = int(state["update_count"])


class _Acting:
    """The part of a network that acts, as what an `Actor` calls."""

    def __init__(self, model: DreamerNet) -> None:
        self._model = model

    def __call__(self, *inputs: Any) -> Columns:
        return self._model.act(*inputs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copying looks them up before there is a model
            raise AttributeError(name)
        return getattr(self._model, name)


def _update(optimizer: Any, loss: Tensor) -> None:
    """Updates parameters by the gradient of a loss."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step(loss)


def _mean(loss: Tensor, known: Tensor) -> Tensor:
    """Computes the mean of losses [L, B] over the steps that there are."""
    return torch.where(known, loss, 0.0).sum() / known.sum()


def _sequences(batch: Batch) -> Batch:
    """Returns sequences [B, L, ...], L being the steps of the longest; single steps are such."""
    keys = ("obs", "next_obs", "action", "reward", "done")
    if batch["reward"].dim() == 1:
        columns = {key: batch[key].unsqueeze(1) for key in keys}
        valid = torch.ones_like(columns["reward"], dtype=torch.bool)
    else:
        valid = batch.get("valid")
        valid = torch.ones_like(batch["reward"], dtype=torch.bool) if valid is None else valid
        longest = int(valid.sum(1).max())
        columns = {key: batch[key][:, :longest] for key in keys}
        valid = valid[:, :longest]
    return Batch({**columns, "valid": valid, "prev_state": batch["prev_state"]}, len(batch))
