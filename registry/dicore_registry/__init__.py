"""dicore_registry: finds components by name in installed metadata; imports them on demand."""

from dicore_registry.entry import (
    LOCAL,
    STATUSES,
    Contract,
    Entry,
    Kind,
    Removed,
    Renamed,
    Resolved,
    Status,
    canonical,
    removed,
    renamed,
)
from dicore_registry.errors import CodePathError
from dicore_registry.explain import nearest
from dicore_registry.importing import CodePaths, code_paths, is_import_path
from dicore_registry.registry import Registry, default, register, using
from dicore_registry.requirements import dist_name
from dicore_registry.source import Place

__all__ = [
    "LOCAL",
    "STATUSES",
    "CodePathError",
    "CodePaths",
    "Contract",
    "Entry",
    "Kind",
    "Place",
    "Registry",
    "Removed",
    "Renamed",
    "Resolved",
    "Status",
    "canonical",
    "code_paths",
    "default",
    "dist_name",
    "is_import_path",
    "nearest",
    "register",
    "removed",
    "renamed",
    "using",
]
