"""Pipelines: complete training loops composed of middleware."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.pipelines.entry import serial_pipeline
    from dicore_plugins.pipelines.parts import Parts, build_parts
    from dicore_plugins.pipelines.serial.config import SerialConfig
    from dicore_plugins.pipelines.serial.pipeline import SerialPipeline
    from dicore_plugins.pipelines.training import TrainingPipeline

__all__ = [
    "Parts",
    "SerialConfig",
    "SerialPipeline",
    "TrainingPipeline",
    "build_parts",
    "serial_pipeline",
]

__getattr__ = lazy(
    __name__,
    {
        "Parts": ".parts",
        "SerialConfig": ".serial.config",
        "SerialPipeline": ".serial.pipeline",
        "TrainingPipeline": ".training",
        "build_parts": ".parts",
        "serial_pipeline": ".entry",
    },
)
