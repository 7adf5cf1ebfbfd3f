"""The findings of one compile, raised together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from dicore.config.layers import PRESET, Layer
from dicore.config.secrets import conceal, is_secret
from dicore.errors import ConfigError, RegistryError

__all__ = ["Problems", "is_place"]

_INDEX = re.compile(r"[0-9]{1,9}")
_FILE = re.compile(r".+\.(py|ya?ml|toml|json)(:\d+)?", re.IGNORECASE)


def is_place(origin: str) -> bool:
    """Says whether the origin of a value is something that a person can open and correct."""
    return origin.startswith(PRESET) or _FILE.fullmatch(origin) is not None


@dataclass(slots=True)
class Problems:
    """Mistakes by path; `broken` tells later steps which values not to trust.

    Args:
        places: Where the value at a path comes from, for findings that know no layer.
    """

    found: list[tuple[str, str, Layer | None]] = field(default_factory=list)
    causes: list[RegistryError] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    places: Mapping[str, str] = field(default_factory=dict)

    def add(self, path: str, message: str, layer: Layer | None = None) -> None:
        """Notes one mistake; the value of a secret is left out."""
        self.found.append((path, conceal(message) if is_secret(path) else message, layer))

    def extend(self, findings: Iterable[tuple[str, str]], layer: Layer | None = None) -> None:
        """Notes several."""
        for path, message in findings:
            self.add(path, message, layer)

    def add_error(
        self, path: str, error: RegistryError, layer: Layer | None = None, more: str = ""
    ) -> None:
        """Notes what the registry says, whose text names the path already, and `more`."""
        self.causes.append(error)
        self.add(path, error.message.removeprefix(f"{path}: ") + more, layer)

    def below(self, path: str) -> bool:
        """Says whether something at or below `path` is wrong."""
        return any(
            path in ("", at) or at.startswith((f"{path}.", f"{path}[")) for at, _, _ in self.found
        )

    def raise_if_any(self) -> None:
        """Raises everything found, sorted by path, with the file and line that gave the value.

        Raises:
            ConfigError: something was found.
            RegistryError: the only thing found is a known component that fails to load.
        """
        if not self.found:
            return
        unloadable = [e for e in self.causes if e.exit_code != ConfigError.exit_code]
        if len(self.found) == len(unloadable) == 1:
            raise unloadable[0]
        lines = {self._line(*finding): finding[0] for finding in self.found}
        ordered = sorted(lines, key=lambda line: (_order(lines[line]), line))
        causes = [error.hint for error in self.causes]
        hints = dict.fromkeys(hint for hint in [*self.hints, *causes] if hint)
        error = ConfigError(ordered, hint="; ".join(hints))
        if len(self.found) == len(unloadable):
            error.exit_code = unloadable[0].exit_code
        raise error from (self.causes[0] if self.causes else None)

    def _line(self, path: str, message: str, layer: Layer | None) -> str:
        place = layer.place(path) if layer is not None and path else self.places.get(path, "")
        told = f"{message} ({place})" if place else message
        return f"{path}: {told}" if path else told


def _order(path: str) -> list[tuple[str, int]]:
    """Sorts `hook[2]` before `hook[10]`."""
    parts = re.findall(r"[^.\[\]]+", path)
    return [("", int(part)) if _INDEX.fullmatch(part) else (part, 0) for part in parts]
