"""Latent world models: networks that predict an environment, and agents that learn from them."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
