"""Several agents in one environment: environments, networks and algorithms."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
