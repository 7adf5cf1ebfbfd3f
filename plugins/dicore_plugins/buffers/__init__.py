"""Replay buffers: they store collected samples and return training batches."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
