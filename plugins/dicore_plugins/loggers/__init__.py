"""Loggers: outputs for a run's metrics besides `log/metrics.jsonl`."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
