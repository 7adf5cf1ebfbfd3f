"""Agents after Digideep: policies that learn from batches of a sampler, one or several per env."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
