"""The generated pages, written once for all tests."""

from __future__ import annotations

from functools import cache

from docs.generate import pages

__all__ = ["generated"]


@cache
def generated() -> dict[str, str]:
    """Returns the text of each page by its path below `docs/generated`."""
    return pages()
