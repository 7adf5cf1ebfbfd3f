"""Tells what the words of a command are: names and files, or overrides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

__all__ = ["split_words"]


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns names and overrides (`a.b=c`), each in their order.

    A file or folder that exists is a name, also if there is `=` in it: `runs/lr=0.1`.
    """
    overrides = [word for word in words if "=" in word and not Path(word).exists()]
    return [word for word in words if word not in overrides], overrides
