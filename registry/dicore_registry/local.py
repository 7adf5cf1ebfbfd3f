"""Components that a decorator registers in this process: notebooks, project code, single files."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

from dicore_registry import explain
from dicore_registry.entry import LOCAL, Entry, canonical, is_name
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
    """A registered object with its declaration."""

    entry: Entry
    target: Any

    @property
    def place(self) -> Place:
        """Where it was registered, with its own docstring (not that of its class)."""
        file, _, line = self.entry.file.rpartition(":")
        doc = self.target.__doc__ or ""
        own = isinstance(self.target, type) or doc != type(self.target).__doc__
        from inspect import cleandoc  # late: it is half of what this package costs to import

        return Place(file, int(line or 1), cleandoc(doc) if own else "")


def declare(kind: str, name: str, target: Any, file: str) -> Local:
    """Makes the declaration of an object.

    Args:
        kind: A registered kind.
        name: The component's name.
        target: A class, a function, or a dict of kind `preset`.
        file: `file:line` of the decorator.

    Raises:
        RegistryError: the name is not allowed.
    """
    key = canonical(name)
    if not is_name(key):
        raise RegistryError(
            f"bad name {name!r} ({file}): a name is a letter, then letters, digits, '_'"
        )
    module = getattr(target, "__module__", "") or "__main__"
    attr = getattr(target, "__qualname__", "") or key
    return Local(Entry(kind, key, LOCAL, "", f"{module}:{attr}", file=file), target)


def same(new: Local, old: Local) -> bool:
    """Says whether this is what was registered before: itself, or its cell or module run again."""
    if new.target is old.target:
        return True
    nested = "<locals>" in new.entry.target  # a factory makes different objects of one name
    return new.entry.target == old.entry.target and not nested


def taken(new: Local, other: str) -> PluginConflictError:
    """Says that the name belongs to something else, naming both files."""
    entry = new.entry
    return PluginConflictError(
        f"{entry.kind} '{entry.name}' ({entry.file}) is registered already: {other}",
        hint="pass override=True to put this one in its place",
        context={"file": entry.file, "other": other},
    )


def caller(depth: int) -> str:
    """Returns `file:line` of the code that called, `depth` frames up."""
    frame = sys._getframe(depth + 1)  # noqa: SLF001 - `inspect` is slow to import
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def load_file(path: Path) -> Entry | None:
    """Imports a file; returns None, or what is wrong with it, which is also a warning.

    A file that fails stops nobody: whatever does not come from it can be used.
    """
    if not path.is_file():
        reason = "there is no such file"
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
