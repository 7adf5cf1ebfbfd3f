"""Main functions in several processes after DI-engine: events, exchangers and stores of tasks."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
