"""Loggers: where the numbers of a run go besides `log/metrics.jsonl`."""
