"""Public names of `dicore` that other packages add by entry points of group `dicore.api`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from dicore_registry.errors import MissingPackageError, UnknownComponentError
from dicore_registry.installing import comes_with
from dicore_registry.known import known
from dicore_registry.registry import default

if TYPE_CHECKING:
    from types import FrameType


def attribute(name: str) -> Any:
    """Implements `dicore.__getattr__`: returns a public name.

    Raises:
        AttributeError: no installed package adds it, so that `hasattr(dicore, name)` is False; if a
            known package does, the message names it.
        MissingPackageError: the same for `from dicore import name`.
    """
    try:
        return public_name(name)
    except MissingPackageError as error:
        raise refusal(error, name, sys._getframe(2)) from None  # noqa: SLF001 - `inspect` is slow


def refusal(error: MissingPackageError, name: str, asked_in: FrameType) -> Exception:
    """Returns what the `__getattr__` of a module raises for a name whose package is missing.

    Args:
        error: Says which package that is.
        name: The name.
        asked_in: Frame of whoever asks for the name.

    Returns:
        An AttributeError, so that `hasattr` is False; for `from module import name` the error
        itself: that asks by `hasattr` first and would drop an AttributeError.
    """
    if asked_in.f_globals.get("__name__") == "importlib._bootstrap":
        return error
    return AttributeError(error.message, name=name)


def public_name(name: str, asked: str = "") -> Any:
    """Imports and returns what a package adds as `from dicore import NAME`.

    Args:
        name: The name.
        asked: What the user typed, if not the name: `--profile`; for messages.

    Raises:
        AttributeError: no installed or known package adds this name.
        MissingPackageError: the package that adds it is not installed.
    """
    try:
        entry = default().find("api", name)
    except UnknownComponentError:
        dist = known("api").get(name)
        if dist is None:
            raise AttributeError(f"module 'dicore' has no attribute '{name}'") from None
        text = comes_with(asked or name, dist)
        raise MissingPackageError(text) from None
    if entry.attr != name:  # names of entries are compared in lower case
        raise AttributeError(f"module 'dicore' has no attribute '{name}'")
    return default().load(entry)
