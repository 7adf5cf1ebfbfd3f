"""Policies: one module or folder per algorithm; importing the options needs no torch."""

from dicore_plugins.lazy import lazy

__getattr__, __dir__ = lazy(__name__)
