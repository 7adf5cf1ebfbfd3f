"""SQN: soft Q-learning for discrete actions (Haarnoja et al. 2017, arXiv:1702.08165).

    y = r + gamma_k (1 - done) alpha logsumexp(min(Q'_1, Q'_2)(s', .) / alpha)

The policy is softmax(min(Q_1, Q_2) / alpha). The temperature alpha is learned, so that the entropy
of the policy stays near a target (Haarnoja et al. 2018, arXiv:1812.05905, section 5).

Shapes: B rows, A actions, H heads.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, Tree
from dicore_plugins.functional.distributional import soft_target
from dicore_plugins.functional.distributions import uniform_entropy
from dicore_plugins.functional.exploration import mask_of, masks_of
from dicore_plugins.functional.td import legal, nstep_td_error
from dicore_plugins.policies.base import Samples
from dicore_plugins.policies.value.dqn import DQNPolicy
from dicore_plugins.policies.value.sqn_config import SQNConfig

__all__ = ["SQNPolicy"]


class SQNPolicy(DQNPolicy):
    """DQN with soft targets and Boltzmann exploration."""

    config_class: ClassVar[type[PolicyConfig]] = SQNConfig
    _cfg: SQNConfig
    _sampler = "eps_greedy_multinomial_sample"

    network_has = ("both", "log_temperature")

    def _loss(self, batch: Batch, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        learn, action = self._cfg.learn, self._action_index(batch["action"])
        target = self._target(batch)
        both = self._model.both(batch["obs"])
        results = [
            nstep_td_error(q, action, target, weight, learn.criterion, learn.huber_delta)
            for q in both
        ]
        (one, error), (other, other_error) = results
        loss = one + other
        if learn.auto_temperature:
            loss = loss + self._temperature_loss(both, batch["obs"])
        value = target if isinstance(target, Tensor) else target[0]
        return loss, (error + other_error) / 2, value

    def _target(self, batch: Batch) -> Tensor | list[Tensor]:
        with torch.no_grad():
            after = legal(self._target_model.q(batch["next_obs"]), batch["next_obs"])
            alpha = self._model.log_temperature.exp()
            several = not isinstance(after, Tensor)
            targets = [
                soft_target(each, *self._bridged(batch), alpha)
                for each in (after if several else [after])
            ]
        return targets if several else targets[0]

    def _temperature_loss(self, both: Any, obs: Tree) -> Tensor:
        """Computes log(alpha) (entropy - target); its graph reaches the temperature alone."""
        wanted, losses = self._cfg.learn.target_entropy, []
        log_alpha = self._model.log_temperature
        with torch.no_grad():
            pairs = [both] if isinstance(both[0], Tensor) else list(zip(*both, strict=True))
            least = [torch.minimum(*pair) for pair in pairs]
            least = legal(least, obs)
        masks: Tree = [mask_of(obs)] * len(least)
        if masks[0] is not None and not isinstance(both[0], Tensor):
            masks = masks_of(masks[0], len(least))
        for q, mask in zip(least, masks, strict=True):
            policy = torch.softmax(q / log_alpha.detach().exp(), 1)
            entropy = torch.special.entr(policy).sum(1).mean()
            largest = math.log(q.shape[1]) if mask is None else uniform_entropy(mask)
            goal = 0.2 * largest if wanted is None else wanted
            losses.append(log_alpha * (entropy - goal))
        return torch.cat(losses).mean()

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "temperature"]

    def _forward_learn(self, data: Samples, **kwargs: object) -> Columns:
        """Runs one gradient update; see `DQNPolicy`. Also returns the `temperature`."""
        result = super()._forward_learn(data, **kwargs)
        return {**result, "temperature": self._model.log_temperature.detach().exp()[0]}
