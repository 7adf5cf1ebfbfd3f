"""Training in several processes: messages, roles, and the middleware that connects tasks."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
