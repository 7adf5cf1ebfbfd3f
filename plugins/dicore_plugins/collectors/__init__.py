"""Collectors: they turn env steps into training samples."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
