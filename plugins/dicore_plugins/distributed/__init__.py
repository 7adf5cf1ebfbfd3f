"""Training on Ray stands in another distribution; the stub says where."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
