"""World models: learned dynamics of an environment, for simulated rollouts."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
