"""Options of the serial pipelines that need a reward model."""

from __future__ import annotations

from typing import ClassVar

from dicore.config.schema import frozen
from dicore_plugins.pipelines.serial.config import SerialConfig, SerialOnPolicyConfig

__all__ = [
    "SerialGAILConfig",
    "SerialNGUConfig",
    "SerialRewardModelConfig",
    "SerialTREXConfig",
    "SerialTREXOnPolicyConfig",
]


@frozen(kw_only=True)
class SerialRewardModelConfig(SerialConfig):
    """As `serial`, and needs a reward model (`policy.reward_model`)."""

    reward_models: ClassVar[tuple[str, ...]] = ()
    """Those that it trains with; none: all."""


@frozen(kw_only=True)
class SerialGAILConfig(SerialConfig):
    """As `serial`, with the reward model `gail`."""

    reward_models: ClassVar[tuple[str, ...]] = ("gail",)


@frozen(kw_only=True)
class SerialNGUConfig(SerialConfig):
    """As `serial`, with the reward model `ngu`."""

    reward_models: ClassVar[tuple[str, ...]] = ("ngu",)


@frozen(kw_only=True)
class SerialTREXConfig(SerialConfig):
    """As `serial`, with the reward model `trex` or `drex`."""

    reward_models: ClassVar[tuple[str, ...]] = ("trex", "drex")


@frozen(kw_only=True)
class SerialTREXOnPolicyConfig(SerialOnPolicyConfig):
    """As `serial_onpolicy`, with the reward model `trex` or `drex`."""

    reward_models: ClassVar[tuple[str, ...]] = ("trex", "drex")
