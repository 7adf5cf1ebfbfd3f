"""Middleware: the steps that a training loop consists of."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
