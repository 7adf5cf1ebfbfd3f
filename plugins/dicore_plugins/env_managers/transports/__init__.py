"""Env transports: they carry actions to the environments of workers, and the results back."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
