"""Lists of samples to tensors and back, as DI-engine's functions; conversions of nested values."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
