"""Pipelines: complete training loops composed of middleware."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.pipelines.entry import serial_pipeline
    from dicore_plugins.pipelines.offline import OfflinePipeline
    from dicore_plugins.pipelines.on_policy import OnPolicyPipeline
    from dicore_plugins.pipelines.parts import Parts, build_parts
    from dicore_plugins.pipelines.serial.config import (
        SerialConfig,
        SerialOfflineConfig,
        SerialOnPolicyConfig,
    )
    from dicore_plugins.pipelines.serial.pipeline import SerialPipeline
    from dicore_plugins.pipelines.training import TrainingPipeline

__all__ = [
    "OfflinePipeline",
    "OnPolicyPipeline",
    "Parts",
    "SerialConfig",
    "SerialOfflineConfig",
    "SerialOnPolicyConfig",
    "SerialPipeline",
    "TrainingPipeline",
    "build_parts",
    "serial_pipeline",
]

_HOMES = {
    ".entry": ("serial_pipeline",),
    ".offline": ("OfflinePipeline",),
    ".on_policy": ("OnPolicyPipeline",),
    ".parts": (
        "Parts",
        "build_parts",
    ),
    ".serial.config": (
        "SerialConfig",
        "SerialOfflineConfig",
        "SerialOnPolicyConfig",
    ),
    ".serial.pipeline": ("SerialPipeline",),
    ".training": ("TrainingPipeline",),
}
"""Public names by module."""

__getattr__ = lazy(__name__, {name: home for home, names in _HOMES.items() for name in names})
