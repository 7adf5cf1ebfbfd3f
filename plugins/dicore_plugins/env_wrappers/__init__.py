"""Env wrappers, configured in `env.env_wrapper`."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
