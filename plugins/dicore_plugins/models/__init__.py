"""Networks and helpers for them; each name imports its module on first use."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
