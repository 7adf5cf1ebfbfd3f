"""TD-MPC2 (Hansen et al. 2024, arXiv:2310.16828): plans in latent space, and learns from replay.

The model learns from sequences of H steps, its latent states from those of the observations
(equations 3 and 4, with z_0 = h(o_0) and z_{t+1} = d(z_t, a_t)):

    L = 1/H sum_t rho^t [c_z |z_{t+1} - sg(h(o_{t+1}))|^2 + c_r CE(R(z_t, a_t), r_t)
                         + c_q CE(Q(z_t, a_t), y_t) + c_c CE(C(z_{t+1}), 1 - done_t)]
    y_t = r_t + gamma (1 - done_t) min of two of Q'(h(o_{t+1}), p(h(o_{t+1})))

The policy learns from the same latent states, without moving them:

    L_p = -1/H sum_t rho^t [Q(z_t, p(z_t)) / max(1, S) + c_h H(p(z_t))]

S is the averaged range of 90 % of the Q values. Q' follow Q slowly. In place of a smaller learning
rate of the encoder, one optimizer has one rate.

Shapes: K ready environments, B sequences, L steps of one, A action values, Z numbers of a state.
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
from dicore_plugins.functional import to_batch, transitions
from dicore_plugins.models import Flat
from dicore_plugins.optimizers import optimizer_of
from dicore_plugins.policies import Actor, RecurrentPolicy, Results, UnitActions
from dicore_worlds.functional import return_range, two_hot_mean, two_hot_nll
from dicore_worlds.models.tdmpc2 import TDMPC2Net
from dicore_worlds.planning.mppi import MPPI
from dicore_worlds.policies.tdmpc2_config import TDMPC2CollectConfig, TDMPC2Config

__all__ = ["TDMPC2Policy"]


class TDMPC2Policy(RecurrentPolicy):
    """Acts by plans, which begin with those of the step before."""

    config_class: ClassVar[type[PolicyConfig]] = TDMPC2Config
    network_class: ClassVar[type | None] = TDMPC2Net
    attributes: ClassVar[tuple[str, ...]] = ("actor", "update_count")
    export_problem: ClassVar[str] = "it acts by planning"
    _cfg: TDMPC2Config

    @cached_property
    def _recurrent(self) -> bool:
        return True  # the state is the mean of the last plan

    @cached_property
    def _unit(self) -> UnitActions:
        return UnitActions(self._cfg, self._device)

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
        planner = _Planner(self._model, self._cfg.collect, self._cfg.discount_factor)
        return Actor(planner, self._device, by_numpy=False)

    def _noise(self, rng: np.random.Generator, count: int) -> Any:
        """Draws what plans are made of: float32 [K, ...]."""
        collect, size = self._cfg.collect, self._model.action_size
        rows = collect.num_policy_samples + collect.iterations * collect.num_samples
        return rng.standard_normal((count, rows, collect.horizon, size), np.float32)

    def _forward_collect(self, obs: Mapping[int, Tree], **unknown: object) -> EnvBatch[Columns]:
        """Plans, takes one of the best plans, and adds the noise that is left in them."""
        if unknown:
            raise UsageError(
                f"unknown argument '{min(unknown)}' of the collect mode of {self}",
                hint="tdmpc2 explores by the spread of its plans; pass none",
            )
        batch = EnvBatch.of(obs)
        count = len(batch.env_id)
        uniform = self._rng.random((count, 1), np.float32)
        added = self._rng.standard_normal((count, self._model.action_size), np.float32)
        noise = self._noise(self._rng, count)
        output = self._collect_model.forward(
            batch.value, noise, uniform, added, env_id=batch.env_id
        )
        return batch.with_value({**output, "action": self._unit.env(output["action"])})

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        """Takes the mean of the plans, which are drawn by the same numbers at every step."""
        batch = EnvBatch.of(obs)
        noise = self._noise(np.random.default_rng(0), 1)
        noise = np.repeat(noise, len(batch.env_id), 0)
        output = self._eval_model.forward(batch.value, noise, env_id=batch.env_id)
        return batch.with_value({**output, "action": self._unit.env(output["action"])})

    # ---- samples

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Converts a block to single steps, of which the buffer makes sequences."""
        self._need_one_reward(block)
        return transitions(block, tail)

    # ---- learning

    def _init_learn(self) -> None:
        learn, model = self._cfg.learn, self._model
        model.to(self._device)
        self._world_optimizer = optimizer_of(learn, Flat(model.world))
        self._policy_optimizer = optimizer_of(learn, Flat(model.policy))
        self._target = copy.deepcopy(model.world["critics"]).requires_grad_(False)
        self._target_flat = Flat(self._target)
        self._range = torch.zeros((), device=self._device)
        self._update_count = 0

    def _forward_learn(self, data: Any, **_: object) -> Results:
        """Runs one gradient update of the model, and one of the policy.

        Args:
            data: B sequences [B, L, ...]: obs, action, reward, next_obs, done, and `valid` bool
                [B, L] if some have less than L steps; or single steps.

        Returns:
            The losses and their parts, as tensors.
        """
        batch = _by_time(to_batch(data, self._device))
        for optimizer in (self._world_optimizer, self._policy_optimizer):
            if not optimizer.flat.intact():
                optimizer.flat.rebind()
        world, states, weight = self._world_loss(batch)
        _update(self._world_optimizer, world["world_loss"])
        policy = self._policy_loss(states, weight)
        _update(self._policy_optimizer, policy["policy_loss"])
        critics = self._world_optimizer.flat.data[-len(self._target_flat.data) :]
        self._target_flat.data.lerp_(critics, self._cfg.learn.target_theta)
        self._update_count += 1
        found = {key: value.detach() for key, value in {**world, **policy}.items()}
        total = found["world_loss"] + found["policy_loss"]
        return {"total_loss": total, **found, "cur_lr": self._world_optimizer.learning_rate}

    def _world_loss(self, batch: Columns) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """Computes the losses of the model; returns also its states [L, B, Z] and their weights."""
        model, learn = self._model, self._cfg.learn
        reward, valid = batch["reward"], batch["valid"]
        done, shape = batch["done"] * (not learn.ignore_done), reward.shape
        action = self._unit.unit(batch["action"].reshape(*shape, -1)).clamp(-1, 1)
        with torch.no_grad():
            after = model.encode(batch["next_obs"].flatten(0, 1))
            target = self._td_target(after, reward.flatten(), done.flatten()).view(shape)
        z, states, steps = model.encode(batch["obs"][0]), [], []
        for each in action:
            states.append(z)
            z, found = model.step(z, each)
            steps.append((z, found))
        reached, reward_logit = (torch.stack(each) for each in zip(*steps, strict=True))
        seen = torch.stack(states)
        q = model.q(seen.flatten(0, 1), action.flatten(0, 1)).unflatten(1, shape)
        going = model.going(reached)
        weight = learn.rho ** torch.arange(len(reward), device=valid.device).unsqueeze(1) * valid
        count = valid.sum()
        parts = {
            "consistency_loss": (reached - after.unflatten(0, shape)).square().mean(-1),
            "reward_loss": two_hot_nll(reward_logit, reward, model.bins),
            "q_loss": two_hot_nll(q, target.expand(len(q), *shape), model.bins).mean(0),
            "going_loss": F.binary_cross_entropy_with_logits(going, 1 - done, reduction="none"),
        }
        losses = {name: (weight * part).sum() / count for name, part in parts.items()}
        factors = (
            learn.consistency_weight,
            learn.reward_weight,
            learn.value_weight,
            learn.going_weight,
        )
        total = sum(f * part for f, part in zip(factors, losses.values(), strict=True))
        return {"world_loss": torch.as_tensor(total), **losses}, seen.detach(), weight / count

    def _td_target(self, after: Tensor, reward: Tensor, done: Tensor) -> Tensor:
        """Computes y of steps [M] that reached states [M, Z]."""
        model = self._model
        action, _, _ = model.act(after, torch.randn(len(after), model.action_size).to(after.device))
        q = two_hot_mean(model.q(after, action, self._target), model.bins)
        value = q[torch.randperm(len(q))[:2]].amin(0)
        return reward + self._cfg.discount_factor * (1 - done) * value

    def _policy_loss(self, states: Tensor, weight: Tensor) -> dict[str, Tensor]:
        """Computes the loss of the policy in states [L, B, Z]."""
        model = self._model
        z = states.flatten(0, 1)
        noise = torch.randn(len(z), model.action_size).to(z.device)
        action, log_prob, _ = model.act(z, noise)
        q = two_hot_mean(model.q(z, action), model.bins)
        value = q[torch.randperm(len(q))[:2]].mean(0)
        flat = weight.flatten()
        scale = self._scale(value.detach()[flat > 0])
        gain = value / scale - self._cfg.learn.entropy_weight * log_prob
        return {
            "policy_loss": -(flat * gain).sum(),
            "entropy": -(flat * log_prob).sum() / flat.sum(),
            "q_value": (flat * value).sum() / flat.sum(),
        }

    def _scale(self, value: Tensor) -> Tensor:
        """Adds Q values to their averaged range S, and computes max(1, S)."""
        moved = self._range.lerp(return_range(value), 1 - self._cfg.learn.range_decay)
        self._range = torch.where(moved.isfinite(), moved, self._range)
        return self._range.clamp(min=1.0)

    def _get_skipped_updates(self) -> int:
        return self._world_optimizer.skipped + self._policy_optimizer.skipped

    def _monitor_vars_learn(self) -> list[str]:
        return [
            *("total_loss", "world_loss", "consistency_loss", "reward_loss", "q_loss"),
            *("going_loss", "policy_loss", "entropy", "q_value", "cur_lr"),
        ]

    def _state_dict_learn(self) -> StateDict:
        return {
            **self._state_dict_model(),
            "target": self._target.state_dict(),
            "world_optimizer": self._world_optimizer.state_dict(),
            "policy_optimizer": self._policy_optimizer.state_dict(),
            "range": self._range,
            "update_count": self._update_count,
        }

    def _load_state_dict_learn(self, state: State) -> None:
        self._load_state_dict_model(state)
        self._target.load_state_dict(state["target"])
        self._world_optimizer.load_state_dict(state["world_optimizer"])
        self._policy_optimizer.load_state_dict(state["policy_optimizer"])
        self._range = torch.as_tensor(state["range"], device=self._device).clone()
        self._update_count = int(state["update_count"])


class _Planner:
    """Plans with a network, as what an `Actor` calls."""

    def __init__(self, model: TDMPC2Net, options: TDMPC2CollectConfig, gamma: float) -> None:
        self._model, self._options, self._gamma = model, options, gamma
        self._mppi = MPPI(
            iterations=options.iterations,
            num_samples=options.num_samples,
            num_elites=options.num_elites,
            min_std=options.min_std,
            max_std=options.max_std,
            temperature=options.temperature,
        )

    def __call__(
        self, obs: Tensor, hidden: Tensor | None = None, noise: Tensor | None = None,
        uniform: Tensor | None = None, added: Tensor | None = None,
    ) -> Columns:  # fmt: skip
        assert noise is not None
        options, size = self._options, self._model.action_size
        z = self._model.encode(obs)
        form = (options.horizon, size)
        mean = z.new_zeros(len(z), *form) if hidden is None else hidden.unflatten(1, form)
        of_policy, drawn = noise.tensor_split([options.num_policy_samples], 1)
        drawn = drawn.unflatten(1, (options.iterations, -1))
        chosen = None if uniform is None else uniform.squeeze(1)
        plan = self._mppi.plan(
            lambda actions: self._value(z, actions),
            mean, drawn, self._proposed(z, of_policy), chosen,
        )  # fmt: skip
        action = plan.action
        if added is not None:
            action = (action + plan.std[:, 0] * added).clamp(-1, 1)
        later = torch.cat([plan.mean[:, 1:], torch.zeros_like(plan.mean[:, :1])], 1)
        return {"action": action, "hidden": later.flatten(1)}

    def _proposed(self, z: Tensor, noise: Tensor) -> Tensor:
        """Returns what the policy would do: [K, P, H, A]."""
        count = noise.shape[1]
        rows = z.repeat_interleave(count, 0)
        actions = []
        for each in noise.flatten(0, 1).unbind(1):
            action, _, _ = self._model.act(rows, each)
            actions.append(action)
            rows, _ = self._model.step(rows, action)
        found: Tensor = torch.stack(actions, 1).unflatten(0, (len(z), count))
        return found

    def _value(self, z: Tensor, actions: Tensor) -> Tensor:
        """Computes the returns of plans [K, N, H, A]: [K, N]."""
        model, count = self._model, actions.shape[1]
        rows = z.repeat_interleave(count, 0)
        total, discount = rows.new_zeros(len(rows)), rows.new_ones(len(rows))
        for action in actions.flatten(0, 1).unbind(1):
            rows, reward = model.step(rows, action)
            total = total + discount * two_hot_mean(reward, model.bins)
            discount = discount * self._gamma * torch.sigmoid(model.going(rows))
        last, _, _ = model.act(rows)
        q = two_hot_mean(model.q(rows, last), model.bins).mean(0)
        found: Tensor = (total + discount * q).unflatten(0, (len(z), count))
        if not torch.isfinite(found).all():
            raise NonFiniteError(
                "the network returns NaN or inf",
                hint="lower policy.learn.learning_rate; the last checkpoints may be finite",
            )
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copying looks them up before there is a model
            raise AttributeError(name)
        return getattr(self._model, name)


def _update(optimizer: Any, loss: Tensor) -> None:
    """Updates parameters by the gradient of a loss."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step(loss)


def _by_time(batch: Batch) -> dict[str, Tensor]:
    """Returns sequences [L, B, ...], L being the steps of the longest; single steps are such."""
    keys = ("obs", "next_obs", "action", "reward", "done")
    if batch["reward"].dim() == 1:
        columns = {key: batch[key].unsqueeze(0) for key in keys}
        return {**columns, "valid": torch.ones_like(columns["reward"], dtype=torch.bool)}
    valid = batch.get("valid")
    valid = torch.ones_like(batch["reward"], dtype=torch.bool) if valid is None else valid
    longest = int(valid.sum(1).max())
    columns = {key: batch[key][:, :longest].transpose(0, 1) for key in keys}
    return {**columns, "valid": valid[:, :longest].T}
