"""Pipelines: complete training loops composed of middleware."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.pipelines.demonstrations.config import (
        SerialDemosConfig,
        SerialDQfDConfig,
        SerialSQILConfig,
    )
    from dicore_plugins.pipelines.demonstrations.experts import ExpertSteps, expert_steps, steps_of
    from dicore_plugins.pipelines.demonstrations.pipeline import DemosPipeline
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
    "DemosPipeline",
    "DynaPipeline",
    "ExpertSteps",
    "OfflinePipeline",
    "OnPolicyPipeline",
    "Parts",
    "SerialConfig",
    "SerialDQfDConfig",
    "SerialDemosConfig",
    "SerialDynaConfig",
    "SerialOfflineConfig",
    "SerialOnPolicyConfig",
    "SerialPipeline",
    "SerialSQILConfig",
    "TrainingPipeline",
    "build_parts",
    "expert_steps",
    "serial_pipeline",
    "steps_of",
]

_HOMES = {
    ".serial.dyna": ("DynaPipeline",),
    ".demonstrations.experts": (
        "ExpertSteps",
        "expert_steps",
        "steps_of",
    ),
    ".demonstrations.pipeline": ("DemosPipeline",),
    ".entry": ("serial_pipeline",),
    ".serial.offline": ("OfflinePipeline",),
    ".serial.on_policy": ("OnPolicyPipeline",),
    ".demonstrations.config": ("SerialDQfDConfig", "SerialDemosConfig", "SerialSQILConfig"),
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
