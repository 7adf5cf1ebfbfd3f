"""Deprecation: a public name works for two minor versions after its successor is named."""

from __future__ import annotations

import warnings

__all__ = ["DicoreDeprecationWarning", "deprecated"]


class DicoreDeprecationWarning(DeprecationWarning):
    """Something public is going to be removed; the text names its successor."""


def deprecated(what: str, *, instead: str, since: str, stacklevel: int = 1) -> None:
    """Warns of a deprecated use.

    Args:
        what: What is deprecated.
        instead: Its successor.
        since: Version of dicore with the first warning; it works in the next minor version too.
        stacklevel: Number of calls between the deprecated use and this call.
    """
    text = f"{what} is deprecated since dicore {since}; use {instead}"
    warnings.warn(text, DicoreDeprecationWarning, stacklevel=stacklevel + 1)
