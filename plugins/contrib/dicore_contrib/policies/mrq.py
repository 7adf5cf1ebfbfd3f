"""MR.Q: model-based representations for Q learning (Fujimoto et al. 2025, arXiv:2501.16142).

Every `target_update_freq` updates F, the target networks (') become copies of the networks. Then F
updates train the embeddings alone, from sequences of H steps: with z_0 = f(s_0) and
(d_t, z_{t+1}, r_t) = M g(z_t, a_t), they minimise the sum over the steps of

    CE(r_t, two-hot of the reward) c_r + |z_{t+1} - f'(s_{t+1})|^2 c_z + (d_t - done_t)^2 c_d

where steps after the end of an episode do not count, and |.|^2 is a mean over numbers. Then F
updates train the Q networks by Huber's loss, and the policy:

    y = (sum_{j<n} gamma^j r_j + gamma^n (1 - done) R' min_i Q'_i(z'_sa of s_n, a')) / R
    a' = clip(pi'(f'(s_n)) + clip(noise))        p = max(max_i |Q_i(z_sa) - y|, min_priority)
    L_pi = -mean_i Q_i(g(f(s), pi(f(s)))) + c_o |pi before tanh or softmax|^2

R is the mean absolute reward of the buffer, R' that of the F updates before. The buffer draws in
proportion to p^alpha (LAP, Fujimoto et al. 2020). The code of the paper makes all updates of the
embeddings within one env step; here they take turns with env steps as the others do. A sequence
begins at each step, also where it reaches over the end of an episode.

Shapes: K ready environments, B sequences, L steps of one, A actions, Z numbers of a state.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from dicore.config import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, State, StateDict, Tree
from dicore.errors import NonFiniteError, UsageError
from dicore.interfaces.policy import Tail
from dicore.run.random import stream
from dicore_contrib.models.mrq import MRQNet
from dicore_contrib.policies.mrq_config import MRQConfig
from dicore_plugins.functional import next_obs_of, sequences, to_batch, transitions, two_hot
from dicore_plugins.models import Flat
from dicore_plugins.optimizers import build_optimizer
from dicore_plugins.policies import Actor, Policy, Results, UnitActions

__all__ = ["MRQPolicy"]

_PARTS = ("encoder", "value", "policy")


class MRQPolicy(Policy):
    """Embeddings and values take turns in learning."""

    config_class: ClassVar[type[PolicyConfig]] = MRQConfig
    network_class: ClassVar[type | None] = MRQNet
    attributes: ClassVar[tuple[str, ...]] = ("actor", "target_model", "update_count")
    squashed: ClassVar[bool] = True
    """Continuous actions are tanh of the network's output."""
    _cfg: MRQConfig

    @cached_property
    def _unit(self) -> UnitActions | None:
        """Scales continuous actions; None: they are discrete."""
        return UnitActions(self._cfg, self._device) if self._model.continuous else None

    @property
    def _share(self) -> float:
        """The share of the configured noises, half for discrete actions."""
        return 1.0 if self._model.continuous else 0.5

    # ---- acting

    def _init_collect(self) -> None:
        self._actor = self._make_actor()
        self._rng = stream("policy/collect")

    def _init_eval(self) -> None:
        self._actor = getattr(self, "_actor", None) or self._make_actor()

    def _make_actor(self) -> Actor:
        if "learn" not in self._enabled:
            self._model.to(self._device)
        return Actor(_Acting(self._model), self._device, by_numpy=False)

    def _forward_collect(self, obs: Mapping[int, Tree], **unknown: object) -> EnvBatch[Columns]:
        """Adds noise to the actions of the policy; discrete ones are drawn from it."""
        if unknown:
            raise UsageError(
                f"unknown argument '{min(unknown)}' of the collect mode of {self}",
                hint="mrq explores by policy.collect.noise; pass none",
            )
        batch = EnvBatch.of(obs)
        output = self._output(batch)
        noise = self._rng.standard_normal(output.shape, np.float32)
        noise *= np.float32(self._share * self._cfg.collect.noise)
        if self._unit is not None:
            return self._acted(batch, np.clip(np.tanh(output) + noise, -1, 1))
        logit = output + self._rng.gumbel(size=output.shape).astype(np.float32)
        scaled = (logit - logit.max(1, keepdims=True)) / np.float32(self._cfg.gumbel_tau)
        share = np.exp(scaled)
        return self._acted(batch, share / share.sum(1, keepdims=True) + noise)

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        """Takes the action of the policy, or the most probable one."""
        batch = EnvBatch.of(obs)
        output = self._output(batch)
        return self._acted(batch, output if self._unit is None else np.tanh(output))

    def _output(self, batch: EnvBatch[Tree]) -> npt.NDArray[np.float32]:
        found: npt.NDArray[np.float32] = self._actor.forward(batch.value)["output"]
        if not np.isfinite(found).all():
            raise NonFiniteError(
                "the network returns NaN or inf",
                hint="lower policy.learn.learning_rate; the last checkpoints may be finite",
            )
        return found

    def _acted(self, batch: EnvBatch[Tree], chosen: npt.NDArray[np.float32]) -> EnvBatch[Columns]:
        """Returns actions in [-1, 1], or those with the largest number, of the environment."""
        if self._unit is not None:
            return batch.with_value({"action": self._unit.env(chosen)})
        return batch.with_value({"action": chosen.argmax(1) + self._cfg.action_start})

    # ---- samples

    def _get_sample_len(self) -> int:
        return int(self._cfg.collect.unroll_len)

    def _get_sample_stride(self) -> int:
        return 1

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Returns the sequences that begin at each step, with `inside` bool [B, L].

        Those that begin near the end of an episode go on with the next one, where `inside` is
        False; so the last steps are first ones, too.
        """
        self._need_one_reward(block)
        length = self._cfg.collect.unroll_len
        if length == 1:
            return transitions(block, tail)
        next_obs = next_obs_of(block, tail)
        samples = sequences(
            Batch({**block.columns, "next_obs": next_obs}, len(block)), length, 1, tail
        )
        end = samples["end"]
        inside = np.cumsum(end, 1) == end
        return Batch({**samples.columns, "inside": inside}, len(samples))

    # ---- learning

    def _init_learn(self) -> None:
        learn, model = self._cfg.learn, self._model.to(self._device)
        self._target_model: MRQNet = copy.deepcopy(model).requires_grad_(False)
        self._flats = {part: Flat(getattr(model, part)) for part in _PARTS}
        self._target_flats = {part: Flat(getattr(self._target_model, part)) for part in _PARTS}
        rates = {"encoder": learn.encoder_learning_rate}
        norms = {"value": learn.max_grad_norm}
        self._optimizers = {
            part: build_optimizer(
                learn.optimizer, flat, learning_rate=rates.get(part, learn.learning_rate),
                max_grad_norm=norms.get(part),
            )
            for part, flat in self._flats.items()
        }  # fmt: skip
        self._update_count = 0
        self._scales = torch.tensor([1.0, 0.0], device=self._device)  # R, R'
        self._seen = torch.zeros(2, device=self._device)  # weighted rewards, and the weights
        self._ends = False

    def _forward_learn(self, data: Any, **_: object) -> Results:
        """Runs one gradient update of the embeddings, or one of Q networks and policy.

        Args:
            data: B sequences [B, L, ...]: obs, action, reward, next_obs, done, and `inside` bool
                [B, L], False after the end of the episode of the first step; or single steps. `IS`
                float32 [B] corrects the mean of the rewards for priorities.

        Returns:
            The losses and their parts, as tensors; None for those of the other kind of update;
            `priority` float32 [B] of updates of the Q networks.
        """
        batch = self._by_time(to_batch(data, self._device))
        for flat in self._flats.values():
            if not flat.intact():
                flat.rebind()
        half = self._cfg.learn.target_update_freq
        at = self._update_count % (2 * half)
        if at == 0:
            for part, flat in self._target_flats.items():
                flat.follow(self._flats[part])
        self._update_count += 1
        found: Results = dict.fromkeys(self._monitor_vars_learn())
        found |= self._update_encoder(batch) if at < half else self._update_values(batch)
        if at == half - 1:
            self._rescale()
        return {**found, "reward_scale": self._scales[0], "cur_lr": self._cfg.learn.learning_rate}

    def _by_time(self, batch: Batch) -> dict[str, Tensor]:
        """Returns sequences [L, B, ...], of one step if need be; actions as networks take them."""
        keys = ("obs", "next_obs", "action", "reward", "done")
        found = {key: batch[key] for key in keys}
        if found["reward"].dim() == 1:
            found = {key: each.unsqueeze(1) for key, each in found.items()}
        inside = batch.get("inside")
        found["inside"] = torch.ones_like(found["reward"]) > 0 if inside is None else inside
        found = {key: each.transpose(0, 1) for key, each in found.items()}
        shape, action = found["reward"].shape, found["action"]
        if self._unit is not None:
            found["action"] = self._unit.unit(action.reshape(*shape, -1)).clamp(-1, 1)
        else:
            index = action.long().reshape(shape) - self._cfg.action_start
            found["action"] = F.one_hot(index, self._model.action_size).float()
        found["done"] = found["done"] * (not self._cfg.learn.ignore_done)
        weight = batch.get("IS")
        found["weight"] = torch.ones_like(found["reward"][0]) if weight is None else weight
        return found

    def _update_encoder(self, batch: Columns) -> Results:
        """Trains the embeddings by what they predict."""
        learn = self._cfg.learn
        self._ends = self._ends or bool(batch["done"].any())
        first = batch["reward"][0].abs()
        seen = torch.stack([batch["weight"].dot(first), batch["weight"].sum()])
        self._seen += torch.where(seen.isfinite().all(), seen, torch.zeros_like(seen))
        parts = self._encoder_losses(batch)
        loss = (
            learn.dynamics_weight * parts["dynamics_loss"]
            + learn.reward_weight * parts["reward_loss"]
            + learn.done_weight * self._ends * parts["done_loss"]
        )
        self._step("encoder", loss)
        losses = {name: part.detach() for name, part in parts.items()}
        return {"total_loss": loss.detach(), "encoder_loss": loss.detach(), **losses}

    def _encoder_losses(self, batch: Columns) -> dict[str, Tensor]:
        """Computes the parts of the loss of the embeddings, each summed over the steps."""
        model, done, inside = self._model, batch["done"], batch["inside"]
        with torch.no_grad():
            after = self._target_model.encode(batch["next_obs"].flatten(0, 1))
            after = after.unflatten(0, done.shape)
        state, predicted = model.encode(batch["obs"][0]), []
        for action in batch["action"]:
            end, state, reward = model.predict(model.join(state, action))
            predicted.append((end, state, reward))
        ends, states, rewards = (torch.stack(each) for each in zip(*predicted, strict=True))
        target = two_hot(batch["reward"].flatten(), model.bins).view_as(rewards)
        errors = {
            "dynamics_loss": (states - after).square().mean(-1),
            "reward_loss": -(target * rewards.log_softmax(-1)).sum(-1),
            "done_loss": (ends - done).square(),
        }
        return {
            name: torch.where(inside, error, 0.0).mean(1).sum() for name, error in errors.items()
        }

    def _update_values(self, batch: Columns) -> Results:
        """Trains Q networks and policy on the embeddings, which stay as they are."""
        learn, model = self._cfg.learn, self._model
        target = self._target(batch)
        with torch.no_grad():
            state = model.encode(batch["obs"][0])
            joint = model.join(state, batch["action"][0])
        q = model.q(joint)
        value_loss = F.smooth_l1_loss(q, target.expand_as(q))
        self._step("value", value_loss)
        output = model.policy(state)
        value = model.q(model.join(state, self._soft(output))).mean()
        policy_loss = -value + learn.output_weight * output.square().mean()
        self._step("policy", policy_loss)
        error = (q.detach() - target).abs().amax(0)
        found = {"value_loss": value_loss.detach(), "policy_loss": policy_loss.detach()}
        results: Results = {
            "total_loss": sum(found.values()),
            "q_value": q.detach().mean(),
            **found,
        }
        if self._cfg.priority:
            results["priority"] = error.clamp(min=learn.min_priority)
        return results

    @torch.no_grad()
    def _target(self, batch: Columns) -> Tensor:
        """Computes y of the first steps: [B]."""
        target, gamma = self._target_model, self._cfg.discount_factor
        inside = batch["inside"][: self._cfg.nstep]
        steps = inside.sum(0)
        power = gamma ** torch.arange(len(inside), device=inside.device)
        rewards = torch.where(inside, batch["reward"][: len(inside)], 0.0)
        at = steps - 1, torch.arange(len(steps), device=inside.device)
        state = target.encode(batch["next_obs"][at])
        q = target.q(target.join(state, self._target_action(state))).amin(0)
        (scale, former), going = self._scales, 1 - batch["done"][at]
        found: Tensor = (power @ rewards + gamma**steps * going * q * former) / scale
        return found

    def _target_action(self, state: Tensor) -> Tensor:
        """Returns the noisy actions of the target policy: [B, A]."""
        learn, share = self._cfg.learn, self._share
        action = self._soft(self._target_model.policy(state))
        limit = share * learn.target_noise_clip
        noise = self._normal(action) * (share * learn.target_noise)
        action = action + noise.clamp(-limit, limit)
        if self._model.continuous:
            return action.clamp(-1, 1)
        return F.one_hot(action.argmax(-1), action.shape[-1]).float()

    def _soft(self, output: Tensor) -> Tensor:
        """Returns actions with a gradient: tanh, or a draw of the Gumbel-softmax."""
        if self._model.continuous:
            return output.tanh()
        return F.gumbel_softmax(output, tau=self._cfg.gumbel_tau)

    def _normal(self, like: Tensor) -> Tensor:
        return torch.randn(like.shape).to(like.device)

    def _step(self, part: str, loss: Tensor) -> None:
        optimizer = self._optimizers[part]
        optimizer.zero_grad()
        loss.backward(inputs=list(self._flats[part]))
        optimizer.step(loss)

    def _rescale(self) -> None:
        """Makes the mean absolute reward of what was just seen the unit of values."""
        total, weight = self._seen
        mean = (total / weight).clamp(min=1e-8)
        former = self._scales[0]
        self._scales = torch.stack([torch.where(weight > 0, mean, former), former])
        self._seen = torch.zeros_like(self._seen)

    def _get_skipped_updates(self) -> int:
        return max(each.skipped for each in self._optimizers.values())

    def _monitor_vars_learn(self) -> list[str]:
        return [
            *("total_loss", "encoder_loss", "dynamics_loss", "reward_loss", "done_loss"),
            *("value_loss", "policy_loss", "q_value", "reward_scale", "cur_lr"),
        ]

    def _state_dict_learn(self) -> StateDict:
        return {
            **self._state_dict_model(),
            "target_model": self._target_model.state_dict(),
            "optimizers": {name: each.state_dict() for name, each in self._optimizers.items()},
            "update_count": self._update_count,
            "scales": self._scales,
            "seen": self._seen,
            "ends": self._ends,
        }

    def _load_state_dict_learn(self, state: State) -> None:
        self._load_state_dict_model(state)
        self._target_model.load_state_dict(state["target_model"])
        for name, optimizer in self._optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        self._update_count, self._ends = int(state["update_count"]), bool(state["ends"])
        self._scales, self._seen = (
            torch.as_tensor(state[name], device=self._device).clone() for name in ("scales", "seen")
        )


class _Acting:
    """The policy over a network, as what an `Actor` calls."""

    def __init__(self, model: MRQNet) -> None:
        self._model = model

    def __call__(self, obs: Tensor) -> Columns:
        return {"output": self._model.policy(self._model.encode(obs))}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copying looks them up before there is a model
            raise AttributeError(name)
        return getattr(self._model, name)
