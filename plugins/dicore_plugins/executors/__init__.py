"""Async mode of a task: middleware that runs at the same time, over versions of the context."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
