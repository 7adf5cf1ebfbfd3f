"""Training in several processes on Ray: roles, versioned parameters, collectors, evaluation."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
