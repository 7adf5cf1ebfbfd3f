"""Errors of discovery and lookup, and the base class of all errors of dicore.

Uses the standard library only, because `dicore list` imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any


class DicoreError(Exception):
    """Base of all errors that dicore raises on purpose; can be pickled.

    Args:
        message: What happened and where (key path, env id, file).
        hint: What to do; shown on its own line.
        context: The values in the message by name, for programs.
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


class CodePathError(RegistryError):
    """A saved config names code by path, and nobody said that it may."""


class UnknownComponentError(RegistryError, LookupError):
    """A config names a component that no installed package provides."""


class MissingPackageError(UnknownComponentError, ImportError):
    """A command or a public name of a package that is not installed."""


class RetiredWarning(FutureWarning):
    """A config uses a name that was renamed."""


class PluginWarning(UserWarning):
    """A plugin failed to load and is skipped."""


class PluginConflictError(RegistryError):
    """Several distributions provide a name, and the config does not choose one."""

    exit_code = 3


class PluginVersionError(RegistryError):
    """A component requires another version of dicore."""

    exit_code = 3


class PluginLoadError(RegistryError):
    """An installed component failed to import."""

    exit_code = 3


class PluginHookError(RegistryError):
    """A hook or a command of an installed package failed; `__cause__` is its error."""

    exit_code = 3


class MissingDependencyError(RegistryError):
    """An installed component needs a package that is not installed."""

    exit_code = 3
