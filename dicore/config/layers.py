"""The layers that a config is compiled from, lowest first, as plain trees of their own memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dicore.config.lines import Lines

__all__ = ["PRESET", "Layer"]

PRESET = "preset "
"""How the name of a preset's layer begins."""


@dataclass(frozen=True, slots=True)
class Layer:
    """What one source says: a preset, a file, the command line.

    Args:
        name: How messages and `origin` call the source.
        tree: A plain tree; keys in their full form once aliases are expanded.
        lines: Where in the file each key stands; None for what is no file.
    """

    name: str
    tree: dict[str, Any] = field(default_factory=dict)
    lines: Lines | None = None

    def origin(self, path: str) -> str:
        """Returns where the value at a path comes from: `my.yaml:3`, `preset cartpole_dqn`, …."""
        line = self.lines.find(path) if self.lines is not None else None
        return self.name if line is None else f"{self.name}:{line}"

    def place(self, path: str) -> str:
        """Returns what a person opens to correct a value; "" for what they have just said."""
        told = self.lines is not None or self.name.startswith(PRESET)
        return self.origin(path) if told else ""
