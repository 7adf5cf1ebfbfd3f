"""Reward models: they learn, change or normalise the rewards that a policy is trained on."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
