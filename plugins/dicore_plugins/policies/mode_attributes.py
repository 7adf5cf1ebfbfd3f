"""Facts of a mode that a worker may ask for; a hand-made mode need not know them."""

from __future__ import annotations

from typing import Any


def fact(mode: Any, name: str, default: Any) -> Any:
    """Returns `mode.get_attribute(name)`, or `default` where the mode cannot tell."""
    get_attribute = getattr(mode, "get_attribute", None)
    if get_attribute is None:
        return default
    try:
        return get_attribute(name)
    except (AttributeError, KeyError):
        return default
