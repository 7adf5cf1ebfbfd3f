"""PPO: proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347).

With dual clip (Ye et al. 2020, arXiv:1912.09729), value clip, early stop by KL divergence, and
advantages that are recomputed before each pass (Andrychowicz et al. 2021, arXiv:2006.05990).

Shapes: B samples.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dicore.config.sections import PolicyConfig
from dicore.data import Batch, Tree
from dicore.interfaces.policy import Tail
from dicore_plugins.functional.distributions import categorical_and_pull
from dicore_plugins.functional.exploration import mask_of
from dicore_plugins.functional.policy_gradient import PolicyGradientLoss, ppo_error, ppo_slopes
from dicore_plugins.functional.samples import next_obs_of
from dicore_plugins.models.formulas import with_formula
from dicore_plugins.policies.actor_critic.base import ActorCriticPolicy
from dicore_plugins.policies.actor_critic.base_config import ActorCriticPolicyConfig
from dicore_plugins.policies.actor_critic.minibatches import Weights
from dicore_plugins.policies.actor_critic.ppo_config import PPOConfig
from dicore_plugins.policies.base import Results

if TYPE_CHECKING:
    from dicore_plugins.policies.actor_critic.ppg_config import PPGConfig
    from dicore_plugins.policies.actor_critic.ppo_offpolicy_config import PPOOffPolicyConfig


class ClippedPolicy(ActorCriticPolicy):
    """Base class of policies with the clipped loss of PPO."""

    config_class: ClassVar[type[PolicyConfig]] = ActorCriticPolicyConfig
    _cfg: PPOConfig | PPGConfig | PPOOffPolicyConfig

    def _slopes(
        self, batch: Batch, output: Tree, weights: Weights, settings: Mapping[str, float]
    ) -> tuple[PolicyGradientLoss, dict[str, Tensor], dict[str, Tensor]] | None:
        """Computes what `_loss_parts` returns, by formulas; None: these options have none."""
        learn, logit = self._cfg.learn, output.get("logit")
        special = learn.value_clip or learn.dual_clip or "weight" in batch or "mean" in output
        if special or not isinstance(logit, Tensor) or mask_of(batch["obs"]) is not None:
            return None
        log_prob, entropy, pull = categorical_and_pull(logit, self._action_index(batch))
        columns = (batch[key] for key in ("log_prob", "advantage", "target"))
        clip_ratio = settings.get("clip_ratio", learn.clip_ratio)
        parts, info, slopes = ppo_slopes(
            log_prob, entropy, output["value"], *columns, clip_ratio=clip_ratio
        )
        of_value = slopes.value * (weights.unit * learn.value_weight)
        of_logit = pull(slopes.log_prob, -weights.entropy / len(entropy))
        return parts, info._asdict(), {"logit": of_logit, "value": of_value}

    @with_formula(_slopes)
    def _loss(
        self, batch: Batch, value: Tensor, log_prob: Tensor, entropy: Tensor, **settings: Any
    ) -> tuple[PolicyGradientLoss, dict[str, Tensor]]:
        learn = self._cfg.learn
        value_clip, norm = learn.value_clip, getattr(self._model, "value_norm", None)
        if value_clip is not None and norm is not None:
            value_clip = value_clip * norm.std[0]
        parts, info = ppo_error(
            log_prob,
            batch["log_prob"],
            entropy,
            value,
            batch["value"],
            batch["advantage"],
            batch["target"],
            batch.get("weight"),
            clip_ratio=settings.get("clip_ratio", learn.clip_ratio),
            value_clip=value_clip,
            dual_clip=learn.dual_clip,
        )
        return parts, info._asdict()

    def _annealed(self) -> dict[str, tuple[float, float]]:
        learn = self._cfg.learn
        return {**super()._annealed(), "clip_ratio": (learn.clip_ratio, learn.clip_ratio_end)}

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "approx_kl", "clipfrac"]


class PPOPolicy(ClippedPolicy):
    """Several passes of minibatch updates over the samples of each collect."""

    config_class: ClassVar[type[PolicyConfig]] = PPOConfig
    _cfg: PPOConfig

    def _updates(self, batch: Batch, **settings: float) -> list[Results]:
        """Runs `epoch_per_collect` passes; fewer if the KL divergence exceeds `target_kl`."""
        learn = self._cfg.learn
        results: list[Results] = []
        for epoch in range(learn.epoch_per_collect):
            if epoch and learn.recompute_adv:
                batch = self._recomputed(batch)
            for minibatch in self._minibatches(batch, learn.batch_size):
                result = self._update(minibatch, **settings)
                if result is None:
                    return results
                results.append(result)
        return results

    def _is_far(self, info: Mapping[str, Tensor]) -> bool:
        target = self._cfg.learn.target_kl
        return target is not None and bool(info["approx_kl"] > target)

    def _get_train_sample(self, block: Batch, tail: Tail | None = None) -> Batch:
        if self._cfg.learn.recompute_adv:
            block = Batch({**block.columns, "next_obs": next_obs_of(block, tail)}, len(block))
        return super()._get_train_sample(block, tail)

    def _recomputed(self, batch: Batch) -> Batch:
        """Returns the samples with advantages and targets by the current values."""
        found = {key: self._values(batch[key]) for key in ("obs", "next_obs")}
        columns = {key: batch[key].cpu().numpy() for key in ("reward", "done", "end", "env_id")}
        index, end = _in_time(columns["env_id"], columns["end"])
        value = found["obs"][index]
        advantage = self._advantage(
            columns["reward"][index], value, found["next_obs"][index], columns["done"][index], end
        )
        new = np.empty((2, len(batch)), np.float32)
        new[:, index] = advantage, advantage + value
        made = torch.from_numpy(new).to(self._device)
        return Batch({**batch.columns, "advantage": made[0], "target": made[1]}, len(batch))


def _in_time(env_id: npt.NDArray[np.int64], end: Any) -> tuple[Any, Any]:
    """Arranges samples by time, as an index into them, and marks where advantages end.

    Returns:
        int64 [T, N] and bool [T, N]; N is 1 if the environments have different numbers of samples.
    """
    count = len(np.unique(env_id))
    if not len(env_id) % count:
        table = np.arange(len(env_id)).reshape(-1, count)
        if (env_id[table] == env_id[:count]).all():
            return table, end[table]
    index = np.argsort(env_id, kind="stable")
    last = np.append(env_id[index][1:] != env_id[index][:-1], True)
    return index[:, None], (end[index] | last)[:, None]
