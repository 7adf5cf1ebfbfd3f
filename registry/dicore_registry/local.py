"""Components registered by decorators in this process: notebooks, project code, single files."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from dicore_registry import explain
from dicore_registry.entry import LOCAL, NAME_FORM, Entry, canonical, is_name
from dicore_registry.errors import (
    DicoreError,
    PluginConflictError,
    PluginWarning,
    RegistryError,
)
from dicore_registry.importing import import_file
from dicore_registry.source import Place

if TYPE_CHECKING:
    from pathlib import Path


class Local(NamedTuple):
    """A registered object and its declaration."""

    entry: Entry
    target: Any

    @property
    def place(self) -> Place:
        """Where it was registered, and its own docstring (not that of its class)."""
        file, _, line = self.entry.file.rpartition(":")
        doc = self.target.__doc__ or ""
        own = isinstance(self.target, type) or doc != type(self.target).__doc__
        from inspect import cleandoc  # late: it takes half of this package's import time

        return Place(file, int(line or 1), cleandoc(doc).partition("\n")[0] if own else "")

    @property
    def defined_in(self) -> str:
        """The file that defines it, which another one may register."""
        module = sys.modules.get(getattr(self.target, "__module__", None) or "")
        return getattr(module, "__file__", None) or self.place.file


def declare(kind: str, name: str, target: Any, file: str) -> Local:
    """Returns an object with its declaration.

    Args:
        kind: A registered kind.
        name: The component's name.
        target: A class, a function, or a dict of kind `preset`.
        file: `file:line` of the decorator.

    Raises:
        RegistryError: the name is invalid.
    """
    key = canonical(name)
    if not is_name(key):
        raise RegistryError(f"invalid name {name!r} ({file}): expected {NAME_FORM}")
    module = getattr(target, "__module__", "") or "__main__"
    attr = getattr(target, "__qualname__", "") or key
    return Local(Entry(kind, key, LOCAL, "", f"{module}:{attr}", file=file), target)


def same(new: Local, old: Local) -> bool:
    """Returns whether both are one object, or one definition that ran twice (cell, module)."""
    if new.target is old.target:
        return True
    nested = "<locals>" in new.entry.target  # a factory defines different objects of one name
    return new.entry.target == old.entry.target and not nested


def taken(new: Local, other: str) -> PluginConflictError:
    """Returns the error for a name in use, with both files."""
    entry = new.entry
    return PluginConflictError(
        f"{entry.kind} '{entry.name}' ({entry.file}) is already registered: {other}",
        hint="pass override=True to replace it",
        context={"file": entry.file, "other": other},
    )


def caller(depth: int) -> str:
    """Returns `file:line` of the calling code, `depth` frames up."""
    frame = sys._getframe(depth + 1)  # noqa: SLF001 - `inspect` is slow to import
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def load_file(path: Path) -> Entry | None:
    """Imports a file; returns None, or warns and returns a broken entry if the import fails."""
    if not path.is_file():
        reason = "file not found"
    else:
        try:
            import_file(path)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            reason = _reason(error)
        else:
            return None
    warnings.warn(f"plugin {path}: {reason}", PluginWarning, stacklevel=2)
    return Entry(
        "plugin", path.name, LOCAL, "", str(path), status="broken", reason=reason, file=str(path)
    )


def _reason(error: BaseException) -> str:
    if isinstance(error, DicoreError):
        return error.message
    return f"failed to import: {explain.brief(error)}"
