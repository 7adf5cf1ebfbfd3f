"""Reward models: they learn, change or normalise the rewards that a policy is trained on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.reward_models.base import (
        NetworkRewardModel,
    )
    from dicore_plugins.reward_models.config import (
        DREXConfig,
        FittedConfig,
        GAILConfig,
        GuidedCostConfig,
        HERConfig,
        ICMConfig,
        IntrinsicConfig,
        NGUConfig,
        PWILConfig,
        REDConfig,
        RewardModelConfig,
        RewardNormConfig,
        RNDConfig,
        TREXConfig,
    )
    from dicore_plugins.reward_models.her import (
        HER,
        SupportsGoals,
    )
    from dicore_plugins.reward_models.imitation import (
        GAIL,
        RED,
        ExpertRewardModel,
        GuidedCost,
    )
    from dicore_plugins.reward_models.intrinsic import (
        ICM,
        RND,
        IntrinsicRewardModel,
    )
    from dicore_plugins.reward_models.ngu import (
        NGU,
    )
    from dicore_plugins.reward_models.pwil import (
        PWIL,
    )
    from dicore_plugins.reward_models.ranking import (
        TREX,
    )
    from dicore_plugins.reward_models.return_scale import (
        ReturnScale,
        RewardNorm,
    )

__all__ = [
    "GAIL",
    "HER",
    "ICM",
    "NGU",
    "PWIL",
    "RED",
    "RND",
    "TREX",
    "DREXConfig",
    "ExpertRewardModel",
    "FittedConfig",
    "GAILConfig",
    "GuidedCost",
    "GuidedCostConfig",
    "HERConfig",
    "ICMConfig",
    "IntrinsicConfig",
    "IntrinsicRewardModel",
    "NGUConfig",
    "NetworkRewardModel",
    "PWILConfig",
    "REDConfig",
    "RNDConfig",
    "ReturnScale",
    "RewardModelConfig",
    "RewardNorm",
    "RewardNormConfig",
    "SupportsGoals",
    "TREXConfig",
]

_HOMES = {
    ".base": ("NetworkRewardModel",),
    ".config": (
        "DREXConfig",
        "FittedConfig",
        "GAILConfig",
        "GuidedCostConfig",
        "HERConfig",
        "ICMConfig",
        "IntrinsicConfig",
        "NGUConfig",
        "PWILConfig",
        "REDConfig",
        "RNDConfig",
        "RewardModelConfig",
        "RewardNormConfig",
        "TREXConfig",
    ),
    ".her": (
        "HER",
        "SupportsGoals",
    ),
    ".imitation": (
        "ExpertRewardModel",
        "GAIL",
        "GuidedCost",
        "RED",
    ),
    ".intrinsic": (
        "ICM",
        "IntrinsicRewardModel",
        "RND",
    ),
    ".ngu": ("NGU",),
    ".pwil": ("PWIL",),
    ".ranking": ("TREX",),
    ".return_scale": (
        "ReturnScale",
        "RewardNorm",
    ),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
