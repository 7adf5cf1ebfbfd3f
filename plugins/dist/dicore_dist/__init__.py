"""Training in several processes: on Ray, or by tasks over HTTP and files."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
