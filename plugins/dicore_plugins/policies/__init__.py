"""Policies: one folder per family of algorithms; importing the options needs no torch."""

from typing import Any

from dicore_plugins.lazy import lazy

_load, __dir__ = lazy(__name__)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except AttributeError:
        if not name.endswith("Config"):
            raise
        from dicore_plugins.policies.former import former

        return former(name)
