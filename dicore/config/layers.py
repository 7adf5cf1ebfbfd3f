"""The layers that a config is compiled from, lowest first, as plain trees of their own memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Layer"]


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source says: a preset, a file, the command line.

    Args:
        name: How messages and `origin` call the source.
        tree: A plain tree; keys in their full form once aliases are expanded.
        file: The file it was read from, to point at lines.
    """

    name: str
    tree: dict[str, Any] = field(default_factory=dict)
    file: Path | None = None
