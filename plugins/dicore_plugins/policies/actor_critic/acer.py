"""ACER: actor-critic with experience replay (Wang et al. 2017, arXiv:1611.01224), discrete actions.

Q values are learned from Retrace targets. The gradient of the policy has truncated importance
weights, with a correction by the Q values for what is cut off, and is projected so that the policy
stays near to a moving average of itself.

Shapes: B sequences, T steps, A actions.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, State, StateDict, Tree
from dicore_plugins.functional.acer import acer_policy_error, acer_trust_region
from dicore_plugins.functional.distributions import (
    kl_divergence,
    log_prob_entropy,
    log_probabilities,
)
from dicore_plugins.functional.exploration import mask_of, next_mask_of
from dicore_plugins.functional.off_policy import retrace
from dicore_plugins.functional.td import expected_value
from dicore_plugins.models.flat import Flat
from dicore_plugins.policies.acting import evaluating
from dicore_plugins.policies.actor_critic.acer_config import ACERConfig
from dicore_plugins.policies.actor_critic.impala import IMPALAPolicy
from dicore_plugins.policies.base import Results, load_model_state, model_state


class ACERPolicy(IMPALAPolicy):
    """Updates from replayed sequences by Retrace, within a trust region."""

    config_class: ClassVar[type[PolicyConfig]] = ACERConfig
    _cfg: ACERConfig
    attributes: ClassVar[tuple[str, ...]] = ("average_flat",)
    _dropped: ClassVar[tuple[str, ...]] = ()

    def _init_learn(self) -> None:
        super()._init_learn()
        self._average_model = copy.deepcopy(self._model).requires_grad_(False).eval()
        self._average_flat = Flat(self._average_model)
        if getattr(self._model, "obs_norm", None) is not None:
            self._average_model.encode.norm = self._model.obs_norm

    def _update(self, batch: Batch, **settings: Any) -> Results:
        """Runs one gradient update from steps [B * T, ...]."""
        learn, obs = self._cfg.learn, batch["obs"]
        output, mask, action = self._model(obs), mask_of(obs), self._action_index(batch)
        log_prob, entropy = log_prob_entropy(output, action, mask)
        taken = output["q_value"].gather(1, action.unsqueeze(1)).squeeze(1)
        change = log_prob.detach() - batch["log_prob"]
        target = self._target(batch, taken.detach(), change)
        policy_loss, direction = self._direction(batch, output, target)
        value_loss = (taken - target).square().mean()
        entropy_weight = settings.get("entropy_weight", learn.entropy_weight)
        rest = learn.value_weight * value_loss - entropy_weight * entropy.mean()
        loss = rest - (direction * output["logit"]).sum(1).mean()
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step(loss)
        self._average_flat.follow(self._flat, learn.average_theta)
        return {
            "cur_lr": self._optimizer.learning_rate,
            "total_loss": policy_loss + rest.detach(),
            "policy_loss": policy_loss,
            "value_loss": value_loss.detach(),
            "entropy": entropy.detach().mean(),
            "approx_kl": (change.exp() - 1 - change).mean(),
        }

    def _target(self, batch: Batch, taken: Tensor, change: Tensor) -> Tensor:
        """Computes Q_ret: float32 [B * T]."""
        learn, shape = self._cfg.learn, (-1, self._length)
        done = batch["done"] * 0 if learn.ignore_done else batch["done"]
        with torch.no_grad(), evaluating(self._switched):
            next_value = self._state_value(batch["next_obs"])
        columns = (change, batch["reward"], taken, next_value, done, batch["end"])
        target: Tensor = retrace(
            *(each.reshape(shape) for each in columns),
            gamma=self._cfg.discount_factor,
            retrace_lambda=learn.retrace_lambda,
        )
        return target.reshape(-1)

    def _direction(
        self, batch: Batch, output: Mapping[str, Tree], target: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Computes the loss of the policy, and how its logits are to change within the region.

        Returns:
            A scalar without graph, and float32 [B * T, A] without graph: the gradient of each
            sample's objective, projected.
        """
        learn, mask = self._cfg.learn, mask_of(batch["obs"])
        logit = output["logit"].detach().requires_grad_()
        loss = acer_policy_error(
            log_probabilities(logit, mask),
            log_probabilities(batch["logit"], mask),
            self._action_index(batch),
            output["q_value"],
            target,
            clip=learn.weight_clip,
        )
        total = loss.policy + loss.correction
        (gradient,) = torch.autograd.grad(total, logit)
        gradient = gradient * -len(logit)
        if learn.trust_region is not None:
            with torch.no_grad():
                average = self._average_model(batch["obs"], mode="compute_actor")
            divergence = kl_divergence(average, {"logit": logit}, mask).sum()
            (kl_gradient,) = torch.autograd.grad(divergence, logit)
            gradient = acer_trust_region(gradient, kl_gradient, learn.trust_region)
        return total.detach(), gradient

    def _state_value(self, obs: Tree) -> Tensor:
        """Computes the mean of the Q values of next states under the policy: float32 [B]."""
        output, mask = self._model(obs), next_mask_of(obs)
        return expected_value(output["q_value"], log_probabilities(output["logit"], mask))

    def _state_dict_learn(self) -> StateDict:
        return {**super()._state_dict_learn(), "average_model": model_state(self._average_model)}

    def _load_state_dict_learn(self, state: State) -> None:
        super()._load_state_dict_learn(state)
        load_model_state(self._average_model, state["average_model"])
