"""Learners: they call a policy's learn mode and run hooks."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
