"""Data sets: recorded transitions for offline training and for filling replay buffers."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
