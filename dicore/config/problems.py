"""The findings of one compile, raised together."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from dicore.config.layers import Layer
from dicore.errors import ConfigError, RegistryError

__all__ = ["Problems"]


@dataclass(slots=True)
class Problems:
    """Mistakes by path; `broken` tells later steps which values not to trust."""

    found: list[tuple[str, str, Layer | None]] = field(default_factory=list)
    causes: list[RegistryError] = field(default_factory=list)

    def add(self, path: str, message: str, layer: Layer | None = None) -> None:
        """Notes one mistake."""
        self.found.append((path, message, layer))

    def extend(self, findings: Iterable[tuple[str, str]], layer: Layer | None = None) -> None:
        """Notes several."""
        for path, message in findings:
            self.add(path, message, layer)

    def add_error(self, path: str, error: RegistryError, layer: Layer | None = None) -> None:
        """Notes what the registry says; its text names the path already."""
        self.causes.append(error)
        self.add(path, error.message.removeprefix(f"{path}: "), layer)

    def below(self, path: str) -> bool:
        """Says whether something at or below `path` is wrong."""
        return any(
            path in ("", at) or at.startswith((f"{path}.", f"{path}[")) for at, _, _ in self.found
        )

    def raise_if_any(self) -> None:
        """Raises everything found, sorted by path.

        Raises:
            ConfigError: something was found.
            RegistryError: the only thing found is a known component that fails to load.
        """
        if not self.found:
            return
        unloadable = [e for e in self.causes if e.exit_code != ConfigError.exit_code]
        if len(self.found) == len(unloadable) == 1:
            raise unloadable[0]
        lines = sorted(
            {f"{path}: {message}" if path else message for path, message, _ in self.found}
        )
        error = ConfigError(lines, hint=self._hint())
        if len(self.found) == len(unloadable):
            error.exit_code = unloadable[0].exit_code
        raise error from (self.causes[0] if self.causes else None)

    def _hint(self) -> str:
        hints = [error.hint for error in self.causes if error.hint]
        places = [_place(path, layer.file) for path, _, layer in self.found if layer and layer.file]
        if places:
            hints.append("see " + ", ".join(dict.fromkeys(sorted(places))))
        return "; ".join(dict.fromkeys(hints))


def _place(path: str, file: Path) -> str:
    """Finds the line of a file that holds a key, where just one does."""
    key = re.split(r"[.\[]", path.removesuffix(".type"))[-1]
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return str(file)
    hits = [
        number for number, line in enumerate(lines, 1) if re.search(rf"\b{re.escape(key)}\b", line)
    ]
    return f"{file}:{hits[0]}" if len(hits) == 1 else str(file)
