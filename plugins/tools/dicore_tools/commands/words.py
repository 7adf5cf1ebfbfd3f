"""Tells what the words of a command are: names and files, or overrides."""

from __future__ import annotations

from collections.abc import Sequence
from os.path import exists

__all__ = ["split_words"]


def split_words(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns names and overrides (`a.b=c`), each in their order.

    A file or folder that exists is a name, also if there is `=` in it: `runs/lr=0.1`.
    """
    # Path.exists raises an error for long words, and where the folder may not be read
    overrides = [word for word in words if "=" in word and not exists(word)]  # noqa: PTH110
    return [word for word in words if word not in overrides], overrides
