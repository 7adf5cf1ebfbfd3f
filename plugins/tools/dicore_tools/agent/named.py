"""The name of a part that somebody gives as a class."""

from __future__ import annotations

from typing import Any

from dicore.config.slots import type_of
from dicore.errors import UsageError
from dicore_registry import default, register

__all__ = ["named"]


def named(kind: str, wanted: Any) -> str | None:
    """Returns what a config can hold for a part: a name as it is, a class by its name.

    A class of a script or notebook that is not registered is registered in this process.

    Args:
        kind: What it is.
        wanted: A name, a class, or None.

    Raises:
        UsageError: it is neither.
        PluginConflictError: something else is registered by the name of the class.
    """
    if wanted is None or isinstance(wanted, str):
        return wanted
    if not isinstance(wanted, type):
        hint = f"give the class, or its name (dicore list {kind})"
        if kind == "env":
            hint = "each worker makes its own: give the class, or the id of gymnasium"
            if callable(wanted):
                hint += "; a function that makes one takes a name: register('env', 'mine')(make)"
        raise UsageError(
            f"{kind}={wanted!r}: expected a name or a class, got {_article(type(wanted))}",
            hint=hint,
        )
    name = type_of(kind, wanted, default())
    if name is None:
        name = wanted.__name__.lower()
        register(kind, name)(wanted)
    return name


def _article(cls: type) -> str:
    name = "function" if cls.__name__ in ("function", "method") else f"{cls.__name__} object"
    return f"a {name}"
