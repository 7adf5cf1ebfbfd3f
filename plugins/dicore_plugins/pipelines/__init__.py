"""Pipelines: complete training loops composed of middleware."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.pipelines.entry import serial_pipeline
    from dicore_plugins.pipelines.serial.config import (
        SerialConfig,
        SerialDynaConfig,
        SerialOfflineConfig,
        SerialOnPolicyConfig,
    )
    from dicore_plugins.pipelines.serial.dyna import DynaPipeline
    from dicore_plugins.pipelines.serial.offline import OfflinePipeline
    from dicore_plugins.pipelines.serial.on_policy import OnPolicyPipeline
    from dicore_plugins.pipelines.serial.pipeline import SerialPipeline
    from dicore_plugins.pipelines.training import Parts, TrainingPipeline, build_parts

__all__ = [
    "DynaPipeline",
    "OfflinePipeline",
    "OnPolicyPipeline",
    "Parts",
    "SerialConfig",
    "SerialDynaConfig",
    "SerialOfflineConfig",
    "SerialOnPolicyConfig",
    "SerialPipeline",
    "TrainingPipeline",
    "build_parts",
    "serial_pipeline",
]

_HOMES = {
    ".serial.dyna": ("DynaPipeline",),
    ".entry": ("serial_pipeline",),
    ".serial.offline": ("OfflinePipeline",),
    ".serial.on_policy": ("OnPolicyPipeline",),
    ".serial.config": (
        "SerialDynaConfig",
        "SerialConfig",
        "SerialOfflineConfig",
        "SerialOnPolicyConfig",
    ),
    ".serial.pipeline": ("SerialPipeline",),
    ".training": ("Parts", "TrainingPipeline", "build_parts"),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
