"""Loggers: outputs for a run's metrics besides `log/metrics.jsonl`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dicore_plugins.lazy import lazy

if TYPE_CHECKING:
    from dicore_plugins.loggers.alert import AlertLogger
    from dicore_plugins.loggers.child import ChildLogger, IWriter, settings_of
    from dicore_plugins.loggers.comet_run import CometLogger
    from dicore_plugins.loggers.console import ConsoleLogger
    from dicore_plugins.loggers.csv_file import CsvLogger
    from dicore_plugins.loggers.mlflow_run import MlflowLogger
    from dicore_plugins.loggers.tensorboard import TensorBoardLogger
    from dicore_plugins.loggers.usage import UsageLogger
    from dicore_plugins.loggers.wandb_run import WandbLogger

__all__ = [
    "AlertLogger", "ChildLogger", "CometLogger", "ConsoleLogger", "CsvLogger", "IWriter",
    "MlflowLogger", "TensorBoardLogger", "UsageLogger", "WandbLogger", "settings_of",
]  # fmt: skip

_HOMES = {
    ".alert": ("AlertLogger",),
    ".child": ("ChildLogger", "IWriter", "settings_of"),
    ".comet_run": ("CometLogger",),
    ".console": ("ConsoleLogger",),
    ".csv_file": ("CsvLogger",),
    ".mlflow_run": ("MlflowLogger",),
    ".tensorboard": ("TensorBoardLogger",),
    ".usage": ("UsageLogger",),
    ".wandb_run": ("WandbLogger",),
}
"""Public names by module."""

__getattr__ = lazy(__name__, _HOMES)
