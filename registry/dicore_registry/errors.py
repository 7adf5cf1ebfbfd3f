"""Errors of discovery and lookup, and the base class of every error of dicore.

Standard library only: this module is imported on the `dicore list` path.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any


class DicoreError(Exception):
    """Base of every error that dicore raises on purpose.

    The message is one finished text that says what happened and where; it survives pickling out of
    a worker process.

    Args:
        message: What happened and where (key path, env id, file).
        hint: What to do instead; shown on a line of its own.
        context: The facts behind the message, by name, for programs.
    """

    exit_code = 1

    def __init__(
        self, message: str, *, hint: str = "", context: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.context: Mapping[str, Any] = MappingProxyType(dict(context or {}))

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.hint, dict(self.context))


def _rebuild(
    cls: type[DicoreError], message: str, hint: str, context: dict[str, Any]
) -> DicoreError:
    error = cls.__new__(cls)
    DicoreError.__init__(error, message, hint=hint, context=context)
    return error


class RegistryError(DicoreError):
    """Discovery or lookup of a component failed."""

    exit_code = 2


class UnknownComponentError(RegistryError, LookupError):
    """A config names a component that nothing installed provides."""


class MissingPackageError(UnknownComponentError, ImportError):
    """A command or a public name is asked for whose package is not installed."""


class RetiredWarning(FutureWarning):
    """A config uses a name that has been replaced by another."""


class PluginWarning(UserWarning):
    """A plugin does not work and is left out; everything else goes on."""


class PluginConflictError(RegistryError):
    """Two distributions provide one name and the config does not say which is meant."""

    exit_code = 3


class PluginVersionError(RegistryError):
    """A component was built for another version of dicore."""

    exit_code = 3


class PluginLoadError(RegistryError):
    """A known component failed to import."""

    exit_code = 3


class MissingDependencyError(RegistryError):
    """A known component needs a package that is not installed."""

    exit_code = 3
