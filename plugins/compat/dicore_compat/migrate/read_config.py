"""Runs a DI-engine config file and prints its dicts as JSON; a script with its own process.

Packages that the file imports and that are no part of Python stand in as `Absent` objects, which
know their dotted name: neither DI-engine nor torch, easydict or an environment is imported.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

ABSENT = "$absent"
"""Key of a JSON object that stands for something of a package that was not imported."""


class Absent:
    """Something of a package that is not imported; attributes and calls give more of it."""

    def __init__(self, name: str) -> None:
        self.__dict__["name"] = name

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.name}.{name}")

    def __call__(self, *args: object, **kwargs: object) -> Absent:
        """Returns what the call would give, which is absent too."""
        return Absent(f"{self.name}()")

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        """A class may derive from it."""
        return ()

    def __enter__(self) -> Absent:
        return self

    def __exit__(self, *error: object) -> None:
        """Ends a `with` block."""


class EasyDict(dict[str, Any]):
    """A dict whose keys are attributes, as the package easydict has it."""

    def __init__(self, values: Any = None, **more: Any) -> None:
        super().__init__()
        for key, value in {**dict(values or {}), **more}.items():
            self[key] = value

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, _easy(value))

    def __getattr__(self, key: str) -> object:
        try:
            return self[key]
        except KeyError as error:
            raise AttributeError(key) from error

    def __setattr__(self, key: str, value: Any) -> None:
        self[key] = value

    def update(self, *others: object, **more: object) -> None:
        """Sets several keys."""
        for key, value in dict(*others, **more).items():
            self[key] = value


def _easy(value: Any) -> object:
    if isinstance(value, Mapping) and not isinstance(value, EasyDict):
        return EasyDict(value)
    if isinstance(value, list | tuple):
        return type(value)(_easy(each) for each in value)
    return value


class AbsentModules(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports every package that is no part of Python as an empty one.

    Args:
        root: Folder that holds the package of the config file; its config modules are run.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Returns the spec of a stand-in, or of a module beside the config file."""
        if name.partition(".")[0] in sys.stdlib_module_names:
            return None
        file = self._root.joinpath(*name.split("."))
        if "config" in name and (found := next(filter(Path.is_file, _files(file)), None)):
            return importlib.util.spec_from_file_location(name, found)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Returns an empty module with any attribute."""
        module = ModuleType(spec.name)
        module.__path__ = []
        module.__getattr__ = Absent(spec.name).__getattr__  # type: ignore[method-assign]
        if spec.name == "easydict":
            module.EasyDict = EasyDict  # type: ignore[attr-defined]
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Does nothing: there is no code."""


def _files(module: Path) -> tuple[Path, ...]:
    return module.with_suffix(".py"), module / "__init__.py"


def package_root(file: Path) -> Path:
    """Returns the folder above the outermost package that holds a file."""
    folder = file.resolve().parent
    while (folder / "__init__.py").exists() or folder.name in ("config", "dizoo"):
        folder = folder.parent
    top = [each for each in file.resolve().parents if each.name == "dizoo"]
    return top[-1].parent if top else folder


def plain(value: Any) -> object:
    """Returns a value as JSON can hold it."""
    if isinstance(value, Absent):
        return {ABSENT: value.name}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {ABSENT: getattr(value, "__qualname__", type(value).__qualname__)}


def main(file: str) -> None:
    """Runs a config file and prints `{name: dict}` of all its dicts."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the file prints is not mistaken for its dicts
    path = Path(file)
    sys.meta_path.insert(0, AbsentModules(package_root(path)))
    names = runpy.run_path(str(path), run_name="dicore_config_file")
    dicts = {name: plain(value) for name, value in names.items() if isinstance(value, Mapping)}
    with out:
        json.dump({name: each for name, each in dicts.items() if not name.startswith("_")}, out)


if __name__ == "__main__":
    main(sys.argv[1])
