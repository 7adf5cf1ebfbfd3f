"""Moved to `dicore_compat.agents`."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
