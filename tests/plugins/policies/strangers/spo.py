"""Simple policy optimization (Xie et al. 2024, arXiv:2401.16025): PPO with another loss.

The ratio is not clipped but pulled back: r A - |A| / (2 c) (r - 1)^2 is largest where |r - 1| = c.

Shapes: B samples.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from dicore import register
from dicore.config import frozen
from dicore.data import Batch
from dicore_plugins.functional import PolicyGradientLoss, value_error
from dicore_plugins.policies import PPOConfig, PPOPolicy


@register("policy", "spo")
@frozen(kw_only=True)
class SPOConfig(PPOConfig):
    """Simple policy optimization."""

    def build(self, ctx: Any, *, model: Any | None = None, **parts: Any) -> Any:
        """Makes the policy."""
        return SPO(self, model=model, **{"device": None if ctx is None else ctx.device, **parts})


class SPO(PPOPolicy):
    """PPO whose ratio is bounded by a quadratic penalty."""

    config_class = SPOConfig

    def _loss(
        self, batch: Batch, value: Tensor, log_prob: Tensor, entropy: Tensor, **settings: Any
    ) -> tuple[PolicyGradientLoss, dict[str, Tensor]]:
        bound = settings.get("clip_ratio", self._cfg.learn.clip_ratio)
        change, advantage = log_prob - batch["log_prob"], batch["advantage"]
        moved = change.exp() - 1
        gain = (moved + 1) * advantage - advantage.abs() / (2 * bound) * moved.square()
        info = {
            "approx_kl": (moved - change).detach().mean(),
            "clipfrac": (moved.detach().abs() > bound).float().mean(),
        }
        value_loss = value_error(value, batch["target"])
        return PolicyGradientLoss(-gain.mean(), value_loss, entropy.mean()), info
