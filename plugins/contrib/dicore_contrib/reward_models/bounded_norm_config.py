"""Options of the reward model that bounds returns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore.config import frozen, option
from dicore.run.env_factory import BuildContext
from dicore_plugins.reward_models import RewardNormConfig

if TYPE_CHECKING:
    from dicore.interfaces.reward_model import IRewardModel

__all__ = ["BoundedRewardNormConfig"]


@frozen(kw_only=True)
class BoundedRewardNormConfig(RewardNormConfig):
    """Divides rewards so that returns have unit variance and a bound (Kim et al. 2026)."""

    limit: float = option(
        float("inf"), "largest absolute value of a normalised reward; inf: returns bound it", gt=0
    )
    max_return: float = option(
        5.0,
        "largest absolute value of the normalised returns",
        gt=0,
        follows="policy.model.v_max",
    )

    def build(self, ctx: BuildContext | None, **parts: object) -> IRewardModel:
        """Creates the reward model."""
        from dicore_contrib.reward_models.bounded_norm import BoundedRewardNorm

        return BoundedRewardNorm(self)
