"""FQF (Yang et al. 2019, arXiv:1911.02140): quantiles at fractions that are learned too.

Shapes: B rows, N fractions.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from dicore.data import Batch, State, StateDict, Tree
from dicore_plugins.functional.distributional import fqf_fraction_loss, qrdqn_loss, quantile_target
from dicore_plugins.models.dqn.distributional import middle
from dicore_plugins.models.flat import Flat
from dicore_plugins.optimizers.config import build_optimizer
from dicore_plugins.policies.value.distributional import DistributionalPolicy
from dicore_plugins.policies.value.fqf_config import FQFConfig

__all__ = ["FQFPolicy"]


class FQFPolicy(DistributionalPolicy):
    """Distributional Q-learning by quantile regression at learned fractions.

    The network is trained at the fractions that it proposes for the observation, also in the
    target. The proposal has its own loss and optimizer, and none of its gradient reaches the rest.
    """

    config_class = FQFConfig
    _cfg: FQFConfig

    network_has = ("distribution", "proposal")

    def _init_learn(self) -> None:
        super()._init_learn()
        learn = self._cfg.learn
        self._fraction_flat = Flat(self._model.proposal())
        self._fraction_optimizer = build_optimizer(
            learn.fraction_optimizer,
            self._fraction_flat,
            learning_rate=learn.fraction_learning_rate,
            max_grad_norm=learn.max_grad_norm,
        )
        self._target_fraction_flat = Flat(self._target_model.proposal())

    def _move_target(self, theta: float | None) -> None:
        super()._move_target(theta)
        self._target_fraction_flat.follow(self._fraction_flat, theta)

    def _trained(self, model: Any) -> list[nn.Parameter]:
        apart = {id(each) for each in model.proposal()}
        return [each for each in model.parameters() if id(each) not in apart]

    def _step(self, loss: Tensor) -> None:
        if not self._fraction_flat.intact():
            self._fraction_flat.rebind()
        self._fraction_optimizer.zero_grad()
        super()._step(loss)
        self._fraction_optimizer.step(loss)

    def _loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        action = self._action_index(batch["action"]).reshape(len(batch["action"]), -1)
        with torch.no_grad():
            features = self._model.features(batch["obs"])
        heads = list(self._model.heads)
        self._boundaries = [head.boundary(features) for head in heads]
        self._at_middle: list[Tensor] = []
        loss, priority, target = super()._loss(batch, weight)
        rows = torch.arange(len(batch), device=self._device)
        for number, (head, boundary) in enumerate(zip(heads, self._boundaries, strict=True)):
            with torch.no_grad():
                inner = head.outputs(features, boundary[:, 1:-1])[rows, action[:, number]]
            at_middle = self._at_middle[number]
            loss = loss + fqf_fraction_loss(boundary, inner, at_middle, weight) / len(heads)
            if self._cfg.learn.fraction_entropy_weight:
                width = boundary.diff(dim=1)
                entropy = torch.special.entr(width).sum(1).mean()
                loss = loss - self._cfg.learn.fraction_entropy_weight * entropy
        self._boundaries, self._at_middle = [], []  # graphs, which cannot be copied
        return loss, priority, target

    def _outputs(self, model: Any, obs: Tree, rows: int) -> list[Tensor]:
        features = model.features(obs)
        return [
            head.outputs(features, middle(boundary.detach()))
            for head, boundary in zip(model.heads, self._boundaries, strict=True)
        ]

    def _head_loss(
        self, output: Tensor, next_output: Tensor, bridged: Any, weight: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        with torch.no_grad():
            target = quantile_target(next_output, *bridged)
            fraction = middle(self._boundaries[len(self._at_middle)])
        self._at_middle.append(output)
        kappa = self._cfg.learn.kappa
        return *qrdqn_loss(output, target, fraction, weight, kappa), target.mean(1)

    def _get_skipped_updates(self) -> int:
        return max(bad for _, bad in self._get_optimizer_counts().values())

    def _get_optimizer_counts(self) -> dict[str, tuple[int, int]]:
        """Returns the updates by each optimizer, and how many of them were skipped."""
        return {"values": self._optimizer.counts, "fractions": self._fraction_optimizer.counts}

    def _state_dict_learn(self) -> StateDict:
        state = super()._state_dict_learn()
        return {**state, "fraction_optimizer": self._fraction_optimizer.state_dict()}

    def _load_state_dict_learn(self, state: State) -> None:
        super()._load_state_dict_learn(state)
        self._fraction_optimizer.load_state_dict(state["fraction_optimizer"])
