"""Collects the metrics of many dicore runs in one SQLite file."""
