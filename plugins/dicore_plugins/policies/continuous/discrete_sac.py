"""SAC for discrete actions (Christodoulou 2019, arXiv:1910.07207).

V'(s') = sum_a pi(a|s') (min_e Q'_e(s', a) - alpha log pi(a|s')): expectations over actions are
exact, no action is sampled for a loss. Actions that a mask forbids have probability 0.

Shapes: K ready environments, B samples, A actions, E Q networks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Columns, EnvBatch, Tree
from dicore_plugins.functional.distributions import soft_expectation, uniform_entropy
from dicore_plugins.functional.exploration import mask_of, next_mask_of
from dicore_plugins.model_wrappers.base import model_wrap
from dicore_plugins.policies.continuous.discrete_sac_config import DiscreteSACConfig
from dicore_plugins.policies.continuous.sac import SACPolicy
from dicore_plugins.policies.outputs import Signature

_SHARE = 0.98
"""Default of the target entropy, as a share of that of uniform actions."""


class DiscreteSACPolicy(SACPolicy):
    """SAC with a categorical actor and Q networks with one output per action."""

    config_class: ClassVar[type[PolicyConfig]] = DiscreteSACConfig
    _cfg: DiscreteSACConfig
    shapes: ClassVar[Mapping[str, Signature]] = {
        "policy": ("", {"logit": "BA"}), "q": ("", "EBA")
    }  # fmt: skip

    def _default_entropy(self) -> float:
        return _SHARE * math.log(self._cfg.model["action_shape"])

    def _wanted_entropy(self, obs: Tree) -> Any:
        mask = mask_of(obs)
        learn = self._cfg.learn
        if mask is None or (learn.target_entropy, learn.target_entropy_end) != (None, None):
            return self._target_entropy
        return _SHARE * uniform_entropy(mask)

    def _q_taken(self, batch: Batch) -> Tensor:
        q = self._model.q(batch["obs"])
        index = batch["action"].long().reshape(-1) - self._cfg.action_start
        taken: Tensor = q.gather(2, index.expand(len(q), -1).unsqueeze(2)).squeeze(2)
        return taken

    def _next_value(self, next_obs: Tree) -> Tensor:
        least = self._target_model.q(next_obs).amin(0)
        logit = self._model.policy(next_obs)["logit"]
        return soft_expectation(logit, least, self._alpha, next_mask_of(next_obs))[0]

    def _actor_loss(self, obs: Tree) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            least = self._model.q(obs).amin(0)
        logit = self._model.policy(obs)["logit"]
        value, entropy = soft_expectation(logit, least, self._alpha, mask_of(obs))
        return -value.mean(), entropy.detach().mean()

    def _init_collect(self) -> None:
        super()._init_collect()
        self._collect_model = model_wrap(self._actor, "multinomial_sample", rng=self._rng)

    def _init_eval(self) -> None:
        super()._init_eval()
        self._eval_model = model_wrap(self._actor, "argmax_sample")

    def _get_action_distribution(self) -> str:
        return "softmax"

    def _forward_collect(self, obs: Mapping[int, Tree], **unknown: object) -> EnvBatch[Columns]:
        self._refuse(unknown)
        return self._acted(self._collect_model, obs)

    def _forward_eval(self, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        return self._acted(self._eval_model, obs)

    def _acted(self, model: Any, obs: Mapping[int, Tree]) -> EnvBatch[Columns]:
        batch = EnvBatch.of(obs)
        output = model.forward(batch.value)
        return batch.with_value({**output, "action": output["action"] + self._cfg.action_start})
