"""What `dicore doctor` finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["Finding", "Level"]

Level = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be.

    Args:
        level: `error` for what does not work, `warning` for what may surprise.
        about: Whom it concerns: `kind/name (dist version)`, a distribution or a file.
        text: What is wrong.
        hint: What to do about it; "" where the text says so.
        check: Which check found it, in a word or two, for programs.
    """

    level: Level
    about: str
    text: str
    hint: str = ""
    check: str = ""
