"""Loggers: outputs for a run's metrics besides `log/metrics.jsonl`."""
