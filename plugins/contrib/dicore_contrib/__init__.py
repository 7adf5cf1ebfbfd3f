"""Algorithms beside the standard ones."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
