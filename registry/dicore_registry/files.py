"""Single files that belong to a project: imported so that their decorators register components."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from dicore_registry import explain
from dicore_registry.entry import LOCAL, Entry
from dicore_registry.errors import DicoreError, PluginWarning
from dicore_registry.importing import import_file

if TYPE_CHECKING:
    from pathlib import Path


def load(path: Path) -> Entry | None:
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
