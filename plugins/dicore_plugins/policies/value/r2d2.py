"""R2D2: recurrent Q-learning from replayed sequences (Kapturowski et al. 2019, R2D2).

A sample is a sequence of L = burn_in + unroll_len + nstep steps and the recurrent state before it,
as it was when acting. The first steps warm up the state without gradients, the last `nstep` only
bootstrap. Episodes may end inside; the next one starts from the first state, and after a truncation
the last observation counts. Targets are double and n-step, with rescaled values:

    y_t = h(R_t + gamma_k (1 - done) h^-1(Q'(s_{t+k}, argmax_a Q(s_{t+k}, a))))

Shapes: T steps, N environments, B sequences, U = unroll_len, A actions, S elements of a state.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, Tree, tree_map
from dicore.interfaces.policy import Tail
from dicore_plugins.functional.bridges import BRIDGED, STATE, nstep_sequences, with_bridges
from dicore_plugins.functional.rescale import value_inv_transform, value_transform
from dicore_plugins.functional.samples import flatten_time
from dicore_plugins.functional.td import legal, sequence_priority, td_loss
from dicore_plugins.policies.recurrent import RecurrentPolicy
from dicore_plugins.policies.value.dqn import DQNPolicy
from dicore_plugins.policies.value.r2d2_config import R2D2Config

__all__ = ["R2D2Policy"]


class R2D2Policy(RecurrentPolicy, DQNPolicy):
    """DQN over a recurrent network, from sequences."""

    config_class: ClassVar[type[PolicyConfig]] = R2D2Config
    _cfg: R2D2Config

    network_has = ("unroll", "state_size")

    # ---- acting

    @cached_property
    def _recurrent(self) -> bool:
        return True  # networks of other packages need not name their layer `rnn`

    def _acting(self, actor: Any) -> Tree:
        return self._remembering(actor)

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        batch = EnvBatch.of(obs)
        output = self._eval_model.forward(batch.value, env_id=batch.env_id)
        return batch.with_value(self._env_actions(output))

    # ---- samples

    @cached_property
    def _by_steps(self) -> bool:
        """Whether the buffer stores steps and makes the sequences."""
        return "state_keys" in self._cfg.other.replay_buffer

    def _process_transition(self, obs: Tree, output: Columns, timestep: Tree) -> Columns:
        columns = super()._process_transition(obs, output, timestep)
        state = output.get(STATE)
        if state is None:  # a warm-up policy has none
            state = np.zeros((len(timestep.done), self._model.state_size), np.float32)
        return {**columns, STATE: state}

    def _get_sample_len(self) -> int:
        collect, nstep = self._cfg.collect, self._cfg.nstep
        return nstep if self._by_steps else int(collect.burn_in + collect.unroll_len + nstep)

    def _get_sample_stride(self) -> int:
        return 1 if self._by_steps else int(self._cfg.collect.unroll_len)

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        """Cuts a block into sequences [B, L, ...]; their n-step columns are [B, L - nstep].

        With a buffer that makes the sequences, samples are steps with n-step columns.
        """
        self._need_one_reward(block)
        nstep, shape = self._cfg.nstep, (self._model.state_size,)
        whole = with_bridges(block, nstep, self._cfg.discount_factor, shape, tail)
        if self._by_steps:
            starts = len(block) - (nstep - 1) if tail is None else tail.starts
            kept = tree_map(lambda leaf: leaf[:starts], whole.columns)
            return flatten_time(Batch(kept, starts))
        stride = self._cfg.collect.unroll_len
        return nstep_sequences(whole, self._get_sample_len(), stride, nstep, tail)

    # ---- learning

    def _loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        learn, rows, mask = self._cfg.learn, len(batch), batch.get("loss_mask")
        first = 0 if "loss_mask" in batch else self._cfg.collect.burn_in
        time = {key: tree_map(_time_first, batch[key]) for key in ("obs", "next_obs", "end")}
        bridged = {key: _time_first(batch[key].reshape(rows, -1))[first:] for key in BRIDGED}
        if mask is not None:
            time["end"] = time["end"] & _time_first(batch["valid"])
            mask = _time_first(mask) * _known(bridged["bridge"], time["end"])
        fresh = None if mask is None else mask[: self._cfg.collect.burn_in].any(0)
        values, after = self._unrolled(self._model, time, batch[STATE], fresh)
        with torch.no_grad():
            _, later = self._unrolled(self._target_model, time, batch[STATE], fresh)
        next_obs = tree_map(lambda leaf: leaf[first:], time["next_obs"])
        chooser = legal(after if learn.double else later, next_obs)
        steps = len(bridged["reward"])
        action = self._action_index(_time_first(batch["action"])[first : first + steps])
        action = action.reshape(steps, rows, -1)
        factor = _factors(weight, mask, steps)
        losses, errors, targets = [], [], []
        for head, q in enumerate(values):
            best = chooser[head].argmax(-1, keepdim=True)
            target = self._rescaled_target(later[head].gather(-1, best).squeeze(-1), bridged)
            taken = q[:steps].gather(-1, action[..., head : head + 1]).squeeze(-1)
            loss, error = td_loss(taken, target, factor, learn.criterion, learn.huber_delta)
            losses.append(loss)
            errors.append(error)
            targets.append(target)
        error = torch.stack(errors).mean(0).T
        priority = sequence_priority(error, None if mask is None else mask.T, learn.priority_eta)
        loss = torch.stack(losses).mean()
        shown = self._shown_loss(values, action, factor, batch, slice(first, first + steps))
        return loss if shown is None else loss + shown, priority, targets[0].mean(0)

    def _shown_loss(
        self,
        values: list[Tensor],
        action: Tensor,
        factor: Tensor | None,
        batch: Batch,
        steps: slice,
    ) -> Tensor | None:
        """Computes a further loss of demonstrations, of policies that learn from them.

        Args:
            values: Q of the U steps that are learned from and of those after them, per head.
            action: int64 [U, B, H]; indices from 0.
            factor: float32 [U, B]; factors of the losses of the steps; None: 1.
            batch: The sequences.
            steps: Of a sequence, the U steps that are learned from.
        """
        return None

    def _rescaled_target(self, value: Tensor, bridged: Mapping[str, Tensor]) -> Tensor:
        """Computes y [U, B] from the values after each step, [U + nstep, B]."""
        rescale = self._cfg.learn.value_rescale
        steps = bridged["bridge"]
        last = torch.arange(len(steps), device=steps.device).unsqueeze(1) + steps
        value = value.gather(0, last.clamp(max=len(value) - 1))
        boot = bridged["value_gamma"]
        if not self._cfg.learn.ignore_done:
            boot = boot * (1 - bridged["done"])
        value = value_inv_transform(value) if rescale else value
        target = bridged["reward"] + boot * value
        return value_transform(target) if rescale else target

    def _unrolled(
        self, model: Any, time: Mapping[str, Any], state: Tensor, fresh: Tensor | None
    ) -> tuple[list[Tensor], list[Tensor]]:
        """Computes the values of each step after the burn-in, and after it: [U + nstep, B, A].

        The latter have no graph; those after the last step are zeros, unless its episode ends.

        Args:
            model: The network.
            time: Columns [L, B, ...].
            state: [B, S]; before the first step.
            fresh: bool [B]; the sequences that need no burn-in. Then the values are those of all
                steps. None: all need it.
        """
        burn_in, early = self._cfg.collect.burn_in, None
        obs, next_obs, end = time["obs"], time["next_obs"], time["end"]
        if burn_in:
            first, rest = (tree_map(lambda leaf, s=s: leaf[s], obs) for s in _halves(burn_in))
            with torch.set_grad_enabled(fresh is not None and torch.is_grad_enabled()):
                early = model.unroll(first, state, end[:burn_in])
            state = early["hidden"]
            state = state.detach() if fresh is None else _detached(state, ~fresh)
            obs = rest
        output = model.unroll(obs, state, end[burn_in:])
        values, ended = _heads(output["logit"]), output["ended"]
        if early is not None and fresh is not None:
            pairs = zip(_heads(early["logit"]), values, strict=True)
            values = [torch.cat(pair) for pair in pairs]
            ended = torch.cat([early["ended"], ended])
        elif burn_in:
            next_obs, end = tree_map(lambda leaf: leaf[burn_in:], (next_obs, end))
        after = [torch.cat([each[1:], torch.zeros_like(each[:1])]).detach() for each in values]
        if len(ended):
            with torch.no_grad():
                last = tree_map(lambda leaf: leaf[end], next_obs)
                finals = _heads(model(last, ended.detach())["logit"])
            for each, final in zip(after, finals, strict=True):
                each[end] = final
        return values, after


def _time_first(leaf: Tensor) -> Tensor:
    return leaf.transpose(0, 1)


def _halves(at: int) -> tuple[slice, slice]:
    return slice(0, at), slice(at, None)


def _detached(state: Tensor, where: Tensor) -> Tensor:
    return torch.where(where.unsqueeze(1), state.detach(), state)


def _heads(logit: Tree) -> list[Tensor]:
    return [logit] if isinstance(logit, Tensor) else list(logit)


def _known(bridge: Tensor, end: Tensor) -> Tensor:
    """Returns which steps [T, B] have a target: those whose bridge ends inside, or at an end."""
    last = torch.arange(len(end), device=end.device).unsqueeze(1) + bridge
    return (last < len(end) - 1) | end.gather(0, last.clamp(max=len(end) - 1)) & (last < len(end))


def _factors(weight: Tensor | None, mask: Tensor | None, steps: int) -> Tensor | None:
    """Returns the factors [T, B] of the losses of steps, whose mean is over those of the mask."""
    if mask is None:
        return None if weight is None else weight.expand(steps, -1)
    factor = mask * (mask.numel() / mask.sum().clamp(min=1))
    return factor if weight is None else factor * weight
