"""Collectors for two policies in one environment, as DI-engine has them."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
