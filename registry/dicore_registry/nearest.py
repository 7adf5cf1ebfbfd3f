"""What a misspelt name was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns the known name that is closest to a misspelt one; "" if none is close."""
    from difflib import get_close_matches

    spellings = {word.lower(): word for word in sorted(known)}
    close = get_close_matches(name.lower(), spellings, n=1)
    return spellings[close[0]] if close else ""
