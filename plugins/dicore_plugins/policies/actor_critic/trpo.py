"""TRPO (Schulman et al. 2015, arXiv:1502.05477) and the natural policy gradient (Kakade 2001).

Each collect gives one step of the policy, which maximises

    L(theta) = mean(pi(a|s) / pi_old(a|s) * A) + entropy_weight * mean(H(pi))

within `mean KL(pi_old || pi) <= target_kl`. With g the gradient of L and F the Hessian of the
divergence (the Fisher matrix), both at theta_old,

    theta = theta_old + sqrt(2 * target_kl / (x' F x)) * x    with F x = g

where x is found by conjugate gradients. TRPO shortens the step until L grows and the divergence
keeps the bound; the natural gradient takes it as it is. Then the values learn from their targets by
ordinary updates. Parameters that the policy depends on are moved by its steps alone, so that an
encoder that both share is learned by the policy.

Shapes: B samples, P parameters of the policy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, tree_map
from dicore_plugins.functional.distributions import kl_divergence, log_prob_entropy
from dicore_plugins.functional.exploration import mask_of
from dicore_plugins.functional.natural_gradient import conjugate_gradient
from dicore_plugins.functional.policy_gradient import value_error
from dicore_plugins.loggers.heartbeat import beat
from dicore_plugins.policies.actor_critic.base import ActorCriticPolicy
from dicore_plugins.policies.actor_critic.trpo_config import TRPOConfig, TRPOLearnConfig
from dicore_plugins.policies.base import Results

__all__ = ["TRPOPolicy"]


class _At(NamedTuple):
    """What a policy is worth on the samples of a collect, scalars."""

    objective: Tensor
    entropy: Tensor
    kl: Tensor


class TRPOPolicy(ActorCriticPolicy):
    """One step within a trust region per collect, and ordinary updates of the values."""

    config_class: ClassVar[type[PolicyConfig]] = TRPOConfig
    _cfg: TRPOConfig

    def _updates(self, batch: Batch, **settings: float) -> list[Results]:
        """Moves the policy once, then the values in `value_epoch` passes."""
        learn = self._cfg.learn
        if learn.adv_norm and len(batch) > 1:
            std, mean = torch.std_mean(batch["advantage"])
            scaled = (batch["advantage"] - mean) / (std + 1e-8)
            batch = Batch({**batch.columns, "advantage": scaled}, len(batch))
        step = _Step(self._evaluator(batch, settings), tuple(self._model.parameters()))
        with torch.no_grad():
            value_loss = self._value_loss(batch)
        moved = step.take(self._cfg)
        results: list[Results] = [{**moved, "value_loss": value_loss}]
        kept = [parameter.detach().clone() for parameter in step.moved]
        for _ in range(learn.value_epoch):
            minibatches = self._minibatches(batch, learn.batch_size)
            results += [{**moved, **self._value_update(each, step.moved)} for each in minibatches]
        with torch.no_grad():  # weight decay would move them
            for parameter, before in zip(step.moved, kept, strict=True):
                parameter.copy_(before)
        return [{"cur_lr": self._optimizer.learning_rate, **each} for each in results]

    def _evaluator(self, batch: Batch, settings: Mapping[str, float]) -> Callable[[], _At]:
        """Returns what computes the objective and the divergence of the present policy."""
        obs, mask, action = batch["obs"], mask_of(batch["obs"]), self._action_index(batch)
        weight = settings.get("entropy_weight", self._cfg.learn.entropy_weight)
        with torch.no_grad():
            old = tree_map(torch.clone, self._model(obs))  # log_std may be a view of a parameter
            acted, _ = log_prob_entropy(old, action, mask)

        def evaluate() -> _At:
            output = self._model(obs)
            log_prob, entropy = log_prob_entropy(output, action, mask)
            gain = ((log_prob - acted).exp() * batch["advantage"]).mean()
            kl = kl_divergence(old, output, mask).mean()
            return _At(gain + weight * entropy.mean(), entropy.mean(), kl)

        return evaluate

    def _value_update(self, batch: Batch, fixed: tuple[nn.Parameter, ...]) -> Results:
        """Runs one gradient update of the parameters that the policy does not depend on."""
        loss = self._value_loss(batch)
        self._optimizer.zero_grad()
        loss.backward()
        for parameter in fixed:
            if parameter.grad is not None:
                parameter.grad.zero_()
        self._optimizer.step(loss)
        return {"total_loss": loss.detach(), "value_loss": loss.detach()}

    def _value_loss(self, batch: Batch) -> Tensor:
        """Computes the error of the values, in units of the normalised returns."""
        norm = getattr(self._model, "value_norm", None)
        unit = 1.0 if norm is None else norm.std[0].square().reciprocal()
        return value_error(self._model(batch["obs"])["value"], batch["target"]) * unit

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "approx_kl", "line_search"]


class _Step:
    """A step of a policy along its natural gradient.

    Args:
        evaluate: Computes objective and divergence of the present parameters.
        parameters: Those of the network.

    Attributes:
        moved: The parameters that the policy depends on.
    """

    def __init__(self, evaluate: Callable[[], _At], parameters: tuple[nn.Parameter, ...]) -> None:
        self._evaluate = evaluate
        self._before = evaluate()
        found = torch.autograd.grad(
            self._before.objective, parameters, retain_graph=True, allow_unused=True
        )
        pairs = [(p, g) for p, g in zip(parameters, found, strict=True) if g is not None]
        self.moved = tuple(parameter for parameter, _ in pairs)
        self._gradient = _joined(gradient for _, gradient in pairs)

    def take(self, cfg: TRPOConfig) -> Results:
        """Moves the policy, or leaves it where no step that is tried is good.

        Returns:
            Scalars; `line_search` is the number of steps tried, 0 if none was taken.
        """
        learn = cfg.learn
        product = self._fisher(learn.cg_damping)
        direction = conjugate_gradient(product, self._gradient, iterations=learn.cg_iterations)
        curvature = float(direction.dot(product(direction)))
        tried, after = 0, self._before
        if 0 < curvature < math.inf:
            longest = math.sqrt(2 * learn.target_kl / curvature) * direction
            tried, after = self._search(longest, learn)
        return {
            "total_loss": -self._before.objective.detach(),
            "policy_loss": -self._before.objective.detach(),
            "entropy": self._before.entropy.detach(),
            "approx_kl": after.kl.detach(),
            "line_search": float(tried),
        }

    def _fisher(self, damping: float) -> Callable[[Tensor], Tensor]:
        """Returns what multiplies vectors [P] by the damped Fisher matrix."""
        moved = self.moved
        found = torch.autograd.grad(
            self._before.kl, moved, create_graph=True, materialize_grads=True
        )
        slope = _joined(found)

        def product(vector: Tensor) -> Tensor:
            rows = torch.autograd.grad(
                slope.dot(vector), moved, retain_graph=True, materialize_grads=True
            )
            beat()
            return _joined(rows) + damping * vector

        return product

    @torch.no_grad()
    def _search(self, longest: Tensor, learn: TRPOLearnConfig) -> tuple[int, _At]:
        """Takes the longest step that is good; returns its number from 1 (0: none), and where."""
        before = [parameter.clone() for parameter in self.moved]
        for number in range(max(learn.line_search_steps, 1)):
            step = self._split(learn.line_search_shrink**number * longest)
            for parameter, start, change in zip(self.moved, before, step, strict=True):
                torch.add(start, change, out=parameter)
            after = self._evaluate()
            if learn.line_search_steps:
                good = after.kl <= learn.target_kl and after.objective > self._before.objective
            else:
                good = torch.isfinite(after.kl + after.objective)
            if good:
                return number + 1, after
        for parameter, start in zip(self.moved, before, strict=True):
            parameter.copy_(start)
        return 0, self._before

    def _split(self, vector: Tensor) -> list[Tensor]:
        """Returns views of a vector [P] in the shapes of the parameters."""
        pieces = vector.split([parameter.numel() for parameter in self.moved])
        return [piece.view_as(p) for piece, p in zip(pieces, self.moved, strict=True)]


def _joined(parts: Iterable[Tensor]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])
