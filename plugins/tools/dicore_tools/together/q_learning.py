"""Updates of DQN for S seeds at once; the equations are those of `DQNPolicy`.

Shapes: S seeds, B samples, A actions, F features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor

from dicore.data import Batch, Tree, tree_map
from dicore.interfaces.policy import LearnMode
from dicore_plugins.functional.samples import weight_of
from dicore_plugins.functional.td import bridged, dqn_td_target, legal
from dicore_plugins.models.dqn.model import DQN
from dicore_plugins.policies.base import Results
from dicore_tools.together.learning import (
    Settings,
    attributes_of,
    per_seed,
    rows_of,
    stacked,
)
from dicore_tools.together.networks import Pull, Stack, StackedMLP, stacked_mlp
from dicore_tools.together.optimizers import step_all

__all__ = ["JointQLearning"]


class JointQLearning:
    """The learn modes of DQN of S seeds.

    Args:
        modes: The learn mode of each.
    """

    def __init__(self, modes: Sequence[LearnMode]) -> None:
        self._modes = tuple(modes)
        of = attributes_of(modes)
        self._cfg: Any = of("cfg")[0]
        self._model: DQN = of("model")[0]
        self._optimizers = of("optimizer")
        self._stack, self._target_stack = Stack(of("flat")), Stack(of("target_flat"))
        self._network = _QNetworks(self._model, self._stack)
        self._target_network = _QNetworks(of("target_model")[0], self._target_stack)

    def update(self, batches: Sequence[Batch], settings: Sequence[Settings]) -> list[Results]:
        """Runs one update of each; see `JointLearner`."""
        columns, learn = stacked(batches), self._cfg.learn
        target = self._target(columns)
        q, pull = self._network.forward_and_pull(self._features(columns["obs"]))
        index = columns["action"].long().reshape(*q.shape[:2], 1) - self._cfg.action_start
        error = q.gather(2, index).squeeze(2) - target
        slope, loss = self._slope_and_loss(error)
        weight = weight_of(Batch(columns), sampled=self._cfg.priority_IS_weight)
        if weight is not None:
            slope, loss = slope * weight, loss * weight
        losses = loss.mean(1)
        slope = slope.mul_(1 / error.shape[1]).unsqueeze(2)
        pull(torch.zeros_like(q).scatter_(2, index, slope))
        if learn.learning_rate_end < 1:
            for mode, optimizer in zip(self._modes, self._optimizers, strict=True):
                optimizer.learning_rate = mode.get_attribute("decayed_rate")
        step_all(self._optimizers, losses)
        self._move_targets()
        found = per_seed(total_loss=losses, target_q_value=target, priority=error.abs_())
        return [
            {"cur_lr": optimizer.learning_rate, **result}
            for optimizer, result in zip(self._optimizers, found, strict=True)
        ]

    def _features(self, obs: Tree) -> Tensor:
        """Encodes observations [S, B, ...]: float32 [S, B, F]."""
        encode = self._model.vectorize
        leaf = obs
        while isinstance(leaf, Mapping):
            leaf = next(iter(leaf.values()))
        seeds, size = leaf.shape[:2]
        if encode is not None:
            flat: Tensor = encode.forward(tree_map(lambda each: each.flatten(0, 1), obs))
            return flat.view(seeds, size, -1)
        vectors: Tensor = obs.float().reshape(seeds, size, -1)
        return vectors

    def _target(self, columns: Mapping[str, Any]) -> Tensor:
        """Computes y: float32 [S, B]."""
        cfg = self._cfg
        next_obs = self._features(columns["next_obs"])
        next_q = self._target_network.forward(next_obs)
        online = self._network.forward(next_obs) if cfg.learn.double else next_q
        online = legal(online, columns["next_obs"])
        names = [name for name in ("reward", "done", "value_gamma") if name in columns]
        rows = rows_of({name: columns[name] for name in names})
        found = bridged(rows, cfg.discount_factor, cfg.nstep, ignore_done=cfg.learn.ignore_done)
        flat = next_q.flatten(0, 1), online.flatten(0, 1)
        return dqn_td_target(flat[0], *found, flat[1]).view(next_q.shape[:2])

    def _slope_and_loss(self, error: Tensor) -> tuple[Tensor, Tensor]:
        """Computes the derivative of the loss of each sample by its value, and the loss: [S, B]."""
        learn = self._cfg.learn
        if learn.criterion == "mse":
            return 2 * error, error.square()
        delta = learn.huber_delta
        zero = torch.zeros_like(error)
        return error.clamp(-delta, delta), F.huber_loss(error, zero, reduction="none", delta=delta)

    def _move_targets(self) -> None:
        learn = self._cfg.learn
        due = []
        for row, mode in enumerate(self._modes):
            count = mode.get_attribute("update_count") + 1
            mode.set_attribute("update_count", count)
            if count % learn.target_update_freq == 0:
                due.append(row)
        if learn.target_theta is not None:
            self._target_stack.data.lerp_(self._stack.data, learn.target_theta)
        elif due:
            self._target_stack.data[due] = self._stack.data[due]


class _QNetworks:
    """The Q networks of S seeds, with one head."""

    def __init__(self, model: DQN, stack: Stack) -> None:
        head: Any = model.heads[0]
        self._encoder = stacked_mlp(model.encoder, stack)
        self._advantage = stacked_mlp(head.advantage, stack)
        self._value: StackedMLP | None = None
        if head.value is not None:
            self._value = stacked_mlp(head.value, stack)

    def forward(self, x: Tensor) -> Tensor:
        """Maps features [S, B, F] to values [S, B, A]."""
        x = self._encoder.forward(x)
        a = self._advantage.forward(x)
        if self._value is None:
            return a
        return self._value.forward(x) + a - a.mean(2, keepdim=True)

    def forward_and_pull(self, x: Tensor) -> tuple[Tensor, Pull]:
        """Computes `forward`, and returns a function of the gradient of the values."""
        x, pull_encoder = self._encoder.forward_and_pull(x)
        a, pull_advantage = self._advantage.forward_and_pull(x)
        if self._value is None:
            return a, lambda grad: pull_encoder(pull_advantage(grad, wanted=True))
        v, pull_value = self._value.forward_and_pull(x)

        def pull(grad: Tensor) -> Tensor | None:
            of_value: Any = pull_value(grad.sum(2, keepdim=True), wanted=True)
            of_advantage = pull_advantage(grad - grad.mean(2, keepdim=True), wanted=True)
            return pull_encoder(of_value + of_advantage)

        return v + a - a.mean(2, keepdim=True), pull
