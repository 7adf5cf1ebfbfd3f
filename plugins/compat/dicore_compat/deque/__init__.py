"""The deque buffer after DI-engine: any Python objects, behind a chain of middleware."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
