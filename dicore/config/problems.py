"""The findings of one compile, raised together."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

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
        told = sorted(
            {(path, f"{message}{_place(path, layer)}") for path, message, layer in self.found}
        )
        lines = [f"{path}: {message}" if path else message for path, message in told]
        error = ConfigError(lines, hint=self._hint())
        if len(self.found) == len(unloadable):
            error.exit_code = unloadable[0].exit_code
        raise error from (self.causes[0] if self.causes else None)

    def _hint(self) -> str:
        return "; ".join(dict.fromkeys(error.hint for error in self.causes if error.hint))


def _place(path: str, layer: Layer | None) -> str:
    """Says in which file, and on which line, a value was given."""
    if layer is None or layer.file is None or not path:
        return ""
    from dicore.config.lines import place_of

    return f" ({place_of(layer.file, path)})"
