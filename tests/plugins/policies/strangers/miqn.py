"""Munchausen-IQN (Vieillard et al. 2020, arXiv:2007.14430, section 3), with action masks.

    z(fraction) = r + alpha [tau log pi(a|s)]_l^0 + gamma sum_a' pi(a'|s') (Z'(s', a') - tau log pi)

pi is softmax(Q' / tau) over the allowed actions, Q' the mean of the quantiles Z'.

Shapes: B samples, A actions, N quantiles, H heads.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from dicore import register
from dicore.config import frozen, option, section
from dicore.data import Batch
from dicore_plugins.functional import legal, munchausen_bonus
from dicore_plugins.policies import IQNConfig, IQNLearnConfig, IQNPolicy, q_values


@frozen(kw_only=True)
class MIQNLearnConfig(IQNLearnConfig):
    """Options of learning."""

    temperature: float = option(0.03, "entropy temperature tau", gt=0)
    munchausen_alpha: float = option(0.9, "factor of the log policy in the reward", ge=0, le=1)
    munchausen_lowest: float = option(-1.0, "lower bound of tau log pi in the reward", le=0)


@register("policy", "miqn")
@frozen(kw_only=True)
class MIQNConfig(IQNConfig):
    """IQN that adds its own log policy to the reward."""

    nstep: int = option(1, "steps of the return", ge=1, le=1, unit="env steps")
    learn: MIQNLearnConfig = section(MIQNLearnConfig)

    def build(self, ctx: Any, *, model: Any | None = None, **parts: Any) -> Any:
        """Makes the policy."""
        return MIQN(self, model=model, **{"device": None if ctx is None else ctx.device, **parts})


class MIQN(IQNPolicy):
    """IQN with the targets of Munchausen reinforcement learning."""

    config_class = MIQNConfig

    def _following(self, batch: Batch, action: Tensor) -> list[tuple[Tensor, Any]]:
        learn, model = self._cfg.learn, self._target_model
        (reward, *rest), found = self._bridged(batch), []
        before, after = (self._heads(model, batch[key]) for key in ("obs", "next_obs"))
        outputs = self._outputs(model, batch["next_obs"], len(batch))
        for head, (q, next_q, output) in enumerate(zip(before, after, outputs, strict=True)):
            log_policy = torch.log_softmax(next_q / learn.temperature, 1).unsqueeze(2)
            policy = log_policy.exp()
            soft = torch.where(policy > 0, policy * (output - learn.temperature * log_policy), 0)
            bonus = munchausen_bonus(q, action[:, head], learn.temperature, learn.munchausen_lowest)
            found.append((soft.sum(1), (reward + learn.munchausen_alpha * bonus, *rest)))
        return found

    def _heads(self, model: Any, obs: Any) -> list[Tensor]:
        """Computes the values of the allowed actions, [B, A] per head."""
        q = legal(q_values(model, obs), obs)
        return [q] if isinstance(q, Tensor) else q
