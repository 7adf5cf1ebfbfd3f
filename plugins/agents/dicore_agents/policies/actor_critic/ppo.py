"""IPPO and MAPPO: PPO of several agents, whose critics see what one agent sees, or all.

de Witt et al. 2020, arXiv:2011.09533; Yu et al. 2022, arXiv:2103.01955. With r_a the ratio of the
probabilities of agent a's action, and means over the agents that act (appendix A):

    L_pi = -mean_a min(r_a A_a, clip(r_a, 1 - c, 1 + c) A_a) - weight * H(pi_a)
    L_V  = mean_a max(l(V_a - R_a), l(clip(V_a, V_old - c, V_old + c) - R_a))

l is the square, or with `value_loss=huber` 2 d |x| - d^2 where |x| > d. IPPO: V_a = V(o_a); MAPPO:
V_a = V_a(s), s being the state or all observations. With `value_norm`, V learns (R - mean) / std.
Of a return of the team, it also learns V_a of all agents where nobody acts. Agents that do not
share their networks have means, and norms of gradients, of their own; see `apart`.

Shapes: R rows of agents that act.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch
from dicore_agents.policies.actor_critic.base import TeamPolicy, agents_of, descend
from dicore_agents.policies.actor_critic.config import TeamPPOConfig
from dicore_agents.policies.apart import ClipApart, advantages_apart
from dicore_plugins.functional import PolicyGradientLoss, value_error
from dicore_plugins.models import with_formula
from dicore_plugins.policies import PPOPolicy

__all__ = ["TeamPPOPolicy", "huber_value_error"]


class TeamPPOPolicy(TeamPolicy, PPOPolicy):
    """PPO of agents that share networks or not; the critic's input is an option of the model."""

    config_class: ClassVar[type[PolicyConfig]] = TeamPPOConfig
    apart: ClassVar[bool] = True
    _cfg: TeamPPOConfig
    _clip: ClipApart | None = None

    def _init_learn(self) -> None:
        super()._init_learn()
        if self.apart:
            self._clip = ClipApart.of(self._optimizer, self._model, self._networks)

    def _run_network(self, batch: Batch) -> tuple[Batch, Any, Any]:
        found = super()._run_network(batch)
        if self._clip is not None:
            self._clip.see(self._row_network)
        return found

    def _scaled_advantages(self, batch: Batch) -> Batch:
        if not self.apart or self._model.count == 1:
            return super()._scaled_advantages(batch)
        advantage = advantages_apart(batch["advantage"], self._row_network, self._model.count)
        return Batch({**batch.columns, "advantage": advantage}, len(batch))

    def _slopes(
        self, batch: Batch, output: Any, weights: Any, settings: Mapping[str, float]
    ) -> tuple[PolicyGradientLoss, dict[str, Tensor], dict[str, Tensor]] | None:
        if self._cfg.learn.value_loss == "huber" or self._valued is not None:
            return None
        return super()._slopes(batch, output, weights, settings)

    @with_formula(_slopes)
    def _loss(
        self, batch: Batch, value: Tensor, log_prob: Tensor, entropy: Tensor, **settings: Any
    ) -> tuple[PolicyGradientLoss, dict[str, Tensor]]:
        parts, info = super()._loss(batch, value, log_prob, entropy, **settings)
        valued, self._valued = self._valued, None
        if self._cfg.learn.value_loss == "huber" or valued is not None:
            parts = parts._replace(value=self._value_error(*(valued or (batch, value))))
        return parts, info

    def _update(self, batch: Batch, **settings: float) -> dict[str, Any] | None:
        """Runs an update; of the critic alone if nobody acts."""
        if not self._absent or bool((batch["obs"]["alive"] != 0).any()):
            return super()._update(batch, **settings)
        model = self._model
        others = [each for name, each in model.named_parameters() if not name.startswith("critic.")]
        kept = [each.detach().clone() for each in others]
        found = self._critic_update(batch)
        with torch.no_grad():  # moments of earlier updates have moved them
            for each, before in zip(others, kept, strict=True):
                each.copy_(before)
        return found

    def _critic_update(self, batch: Batch) -> dict[str, Any]:
        """Runs an update of the critic alone."""
        if self._clip is not None:
            self._clip.see(None)
        with torch.no_grad():
            steps = self._remembered(batch)
        rows, output = agents_of(steps, {"value": self._model.v(steps["obs"])}, absent=self._absent)
        norm = self._model.value_norm
        loss = self._value_error(rows, output["value"])
        loss = loss if norm is None else loss * norm.std[0].square().reciprocal()
        total = self._cfg.learn.value_weight * loss
        descend(self._optimizer, total)
        return self._result({"total_loss": total, "value_loss": loss})

    def _value_error(self, batch: Batch, value: Tensor) -> Tensor:
        """Computes L_V of rows of agents, in units of the returns."""
        learn, norm = self._cfg.learn, self._model.value_norm
        unit = 1.0 if norm is None else norm.std[0]
        clip = None if learn.value_clip is None else learn.value_clip * unit
        target, old, weight = batch["target"], batch["value"], batch.get("weight")
        if learn.value_loss == "mse":
            return value_error(value, target, weight, old, clip)
        error = huber_value_error(value, target, old, clip, learn.huber_delta * unit)
        return (error if weight is None else error * weight).mean()


def huber_value_error(
    value: Tensor,
    target: Tensor,
    old_value: Tensor,
    clip_range: float | Tensor | None,
    delta: float | Tensor,
) -> Tensor:
    """Computes l of the value's error, or the larger one of it and of the clipped value's.

    Args:
        value: float32 [R], with its graph.
        target: float32 [R].
        old_value: float32 [R]; value when the sample was collected.
        clip_range: c; None: no clipping.
        delta: d.

    Returns:
        float32 [R]; not halved, as `value_error`.
    """
    error = _huber(value - target, delta)
    if clip_range is None:
        return error
    clipped = torch.clamp(value, old_value - clip_range, old_value + clip_range)
    return torch.maximum(error, _huber(clipped - target, delta))


def _huber(error: Tensor, delta: float | Tensor) -> Tensor:
    size = error.abs()
    return torch.where(size <= delta, error.square(), 2 * delta * size - delta * delta)
