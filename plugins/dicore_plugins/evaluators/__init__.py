"""Evaluators: they run a policy over whole episodes."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
