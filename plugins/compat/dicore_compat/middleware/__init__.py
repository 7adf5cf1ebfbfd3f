"""Middleware of DI-engine's task form that no pipeline uses."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
