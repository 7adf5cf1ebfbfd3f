"""Model wrappers: layers around a shared model that change its behaviour."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
