"""Learner hooks: they run before and after a learner's run and its iterations."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
