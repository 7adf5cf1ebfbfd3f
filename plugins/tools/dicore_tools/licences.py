"""Licences of what is published, as SPDX expressions."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_licence"]

_MOST: Final = 200
_ID: Final = r"\(*[A-Za-z0-9][A-Za-z0-9.+-]*\)*"
_EXPRESSION: Final = re.compile(f"{_ID}( (AND|OR|WITH) {_ID})*")


def is_licence(text: str) -> bool:
    """Returns whether a text has the form of an SPDX expression: `MIT OR Apache-2.0`."""
    even = text.count("(") == text.count(")")
    return even and len(text) <= _MOST and bool(_EXPRESSION.fullmatch(text))
