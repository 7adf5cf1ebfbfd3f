"""Memories of trajectories and samplers that make training batches of them, after Digideep."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
