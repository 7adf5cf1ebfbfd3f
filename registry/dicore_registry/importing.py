"""Imports targets, and decides which; the only module of the registry that runs their code."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from functools import partial
from importlib.machinery import SourceFileLoader
from typing import TYPE_CHECKING, Any, Final

from dicore_registry import explain
from dicore_registry.entry import Resolved
from dicore_registry.errors import CodePathError, UnknownComponentError
from dicore_registry.explain import nearest
from dicore_registry.plugin_filter import is_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from importlib.machinery import ModuleSpec
    from pathlib import Path
    from types import ModuleType

STRANGE: Final = "a saved config may be a stranger's"
"""Why a saved config names no code by its path, and reads no environment variable."""
TRUST: Final = "--trust (trust=True) runs what a saved config names by path"
"""The hint of such errors, which a command makes the line to type."""
NAMES_ONLY: Final = "omit --names-only to allow it"
"""The hint of errors about code that only it forbids."""
_PRIVATE: Final = "_dicore_file_"
_MOST_PARTS: Final = 4


class CodePaths:
    """Which code paths this process may import: `pkg.mod:Class`, `./file.py:Class`, or a module.

    Everything is allowed until a text of a stranger is read (a saved config without `--trust`), or
    with `--names-only`. Then only those are that a person gave, in a command line, a call or a
    config file. The rule holds for the process: it does not matter which part imports, when, or in
    which thread. `state` and `restore` carry it to other processes.
    """

    def __init__(self) -> None:
        self._given: set[str] = set()
        self._closed = False

    def allow(self, texts: Iterable[str]) -> None:
        """Allows texts that a person gave, or a package that is installed."""
        for text in texts:
            self._given.add(text)
            parts = text.split(":")  # gymnasium:my.envs:Maze-v0 allows my.envs
            if 1 < len(parts) <= _MOST_PARTS:
                ends = range(1, len(parts) + 1)
                self._given.update(":".join(parts[i:j]) for j in ends for i in range(j))

    def close(self) -> None:
        """Refuses from now on every code path that `allow` is not told."""
        self._closed = True

    @staticmethod
    def classes_of(file: str) -> list[str]:
        """Returns the public classes of a file, which is not run; of several, environments alone.

        Raises:
            UnknownComponentError: there is no such file, or it is no Python.
        """
        import ast

        try:
            with open(file, "rb") as opened:  # noqa: PTH123 - as the rest of this module
                body = ast.parse(opened.read()).body
        except OSError as error:
            raise UnknownComponentError(f"{file}: {error.strerror}") from None
        except SyntaxError as error:
            at = f"line {error.lineno}: " if error.lineno else ""
            raise UnknownComponentError(f"{file}: {at}{error.msg}") from None
        except (ValueError, RecursionError) as error:
            raise UnknownComponentError(f"{file}: {error}") from None
        found = [each for each in body if isinstance(each, ast.ClassDef) and each.name[0] != "_"]
        envs: list[str] = []
        for each in found:
            if any(b.endswith("Env") or b in envs for b in map(ast.unparse, each.bases)):
                envs.append(each.name)
        return envs if len(found) > 1 and envs else [each.name for each in found]

    def class_of(self, file: str) -> tuple[str, str]:
        """Returns the path of the class that a file alone names; see `classes_of`.

        Returns:
            `file.py:Class`, or "" if there is not one; and what to write, or why there is none.
        """
        try:
            found = [f"{file}:{name}" for name in self.classes_of(file)]
        except UnknownComponentError as error:
            return "", error.message
        why = f"write {' or '.join(found)}" if found else "it has none"
        return found[0] if len(found) == 1 else "", why

    def is_given(self, text: str) -> bool:
        """Returns whether a text was allowed, whatever else may be imported."""
        return text in self._given

    def allows(self, text: str) -> bool:
        """Returns whether a text may be used that a stranger must not choose."""
        return not self._closed or text in self._given

    def check(self, text: str, where: str = "") -> None:
        """Raises an error if a code path may not be imported.

        Args:
            text: The path; or another text that chooses the code that runs, such as the address of
                processes whose pickles are read.
            where: Config path of the value, which begins the message.

        Raises:
            CodePathError: nobody allowed it.
        """
        if self.is_given(text):
            return
        if is_on(os.environ, "DICORE_NAMES_ONLY"):
            what = f"'{text}' is a code path, which --names-only forbids"
            raise CodePathError(explain.at(where, what), hint=NAMES_ONLY)
        if self._closed:
            raise CodePathError(
                explain.at(where, f"'{text}' is a code path, and {STRANGE}"), hint=TRUST
            )

    def check_arguments(self, given: Any, where: str = "") -> None:
        """Checks the texts with one colon in arguments of code that may import what they name.

        Before it looks at the name, Gymnasium imports whatever stands before a colon.
        """
        for text in _texts(given):
            if text.count(":") == 1:
                self.check(text, where)

    def import_module(self, name: str, where: str = "") -> ModuleType:
        """Imports a module that a config names; see `check`."""
        self.check(name, where)
        importable(os.getcwd())  # noqa: PTH109 - as where it was trained
        return importlib.import_module(name)

    def state(self) -> tuple[bool, tuple[str, ...]]:
        """Returns what another process needs to know for `restore`."""
        return self._closed, tuple(sorted(self._given))

    def restore(self, told: tuple[bool, Iterable[str]]) -> None:
        """Takes over the rule of the process that started this one; never loosens it here."""
        self._closed = self._closed or told[0]
        self._given.update(told[1])


code_paths: Final = CodePaths()
"""The rule of this process."""


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


def import_target(module: str, attr: str) -> Any:
    """Imports a module and returns its attribute `attr` (maybe dotted); the module if it is ""."""
    found: Any = importlib.import_module(module)
    for part in filter(None, attr.split(".")):
        found = getattr(found, part)
    return found


def import_file(path: Path) -> ModuleType:
    """Imports one file under a private module name, once unless the file changes.

    Its classes can be pickled: a process that has imported `dicore_registry` finds the file by the
    module's name.
    """
    path = path.resolve()
    name = _private_name(path)
    digest = file_digest(path)
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__dicore_digest__", None) == digest:
        return loaded
    spec = importlib.util.spec_from_file_location(name, path, loader=_Loader(name, str(path)))
    if spec is None or spec.loader is None or path.suffix != ".py":
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if loaded is None:
            del sys.modules[name]
        else:
            sys.modules[name] = loaded
        raise
    return module


def _private_name(path: Path) -> str:
    """Encodes a path as a module name, without dots and colons."""
    quoted = str(path).replace("%", "%25").replace(".", "%2E").replace(":", "%3A")
    return f"{_PRIVATE}{quoted}"


class _Loader(SourceFileLoader):
    """Lets a file import its neighbours, in every process that imports it.

    The digest is set before the module runs: its decorators may import all files, itself too.
    """

    def exec_module(self, module: ModuleType) -> None:
        importable(os.path.dirname(self.path))  # noqa: PTH120 - pathlib is slow here
        module.__dict__["__dicore_digest__"] = file_digest(self.path)
        super().exec_module(module)


class _Files:
    """Finds the module of a single file by its name, for unpickling in another process."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if not name.startswith(_PRIVATE):
            return None
        quoted = name.removeprefix(_PRIVATE)
        file = quoted.replace("%3A", ":").replace("%2E", ".").replace("%25", "%")
        return importlib.util.spec_from_file_location(name, file, loader=_Loader(name, file))


if not any(finder is _Files for finder in sys.meta_path):
    sys.meta_path.append(_Files)


def file_digest(path: str | Path) -> str:
    """Returns `sha256:<hex>` of a file's bytes; "" if it cannot be read."""
    import hashlib

    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - pathlib is slow here
            return f"sha256:{hashlib.sha256(stream.read()).hexdigest()}"
    except OSError:
        return ""


def source_digest(path: str) -> str:
    """Returns the digest of a component's source, given the file that defines it.

    For a `config.py` or `__init__.py`, the digest covers all Python files in its folder.
    """
    import hashlib

    folder, name = os.path.split(path)
    if name not in ("config.py", "__init__.py"):
        return file_digest(path)
    try:
        names = sorted(each for each in os.listdir(folder) if each.endswith(".py"))  # noqa: PTH208
    except OSError:
        return file_digest(path)
    digests = "\n".join(f"{each} {file_digest(f'{folder}{os.sep}{each}')}" for each in names)
    return f"sha256:{hashlib.sha256(digests.encode()).hexdigest()}"


def is_import_path(text: str) -> bool:
    """Returns whether a `type` names a module or file instead of a component.

    `pkg.mod:Class`, `mod:Class` and `./file.py:Class` do. `gymnasium:CartPole-v1` does not: before
    the first colon (except after a drive letter) is no dot or slash, and after it no Python name.
    """
    left = re.match(r"(?:[A-Za-z]:[\\/])?[^:]*(?=:)", text)
    if left is None:
        return False
    attr = text[left.end() + 1 :].split(".")
    is_module = left[0].isidentifier() and all(part.isidentifier() for part in attr)
    return is_module or any(sign in left[0] for sign in "./\\")


def importable(folder: str) -> None:
    """Lets the modules of a folder be imported from now on; they hide no installed ones."""
    if folder not in sys.path:
        sys.path.append(folder)


def resolve_path(kind: str, text: str, where: str) -> Resolved:
    """Imports what `pkg.mod:Class` or `./file.py:Class` names.

    Args:
        kind: The requested kind; for messages only.
        text: The import path.
        where: Config path of the value.

    Raises:
        CodePathError: a saved config names it, see `code_paths`.
        UnknownComponentError: the file, module or attribute does not exist.
        PluginLoadError: importing it raised.
    """
    code_paths.check(text, where)
    left, _, attr = text.rpartition(":")
    module = _module(kind, text, left, where)
    found: Any = module
    try:
        for part in attr.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        names = [name for name in vars(module) if not name.startswith("_")]
        close = nearest(attr, names)
        made = [name for name in names if _home(getattr(module, name)) == module.__name__]
        hint = f"; it has {', '.join(made[:9])}" if made else ""
        hint = f"; did you mean '{close}'?" if close else hint
        if not attr.replace(".", "").isidentifier():  # an id, with - and a version
            hint = f"; what it registers by that name: dicore --plugin {left} … and {attr} alone"
        message = f"'{left}' has no attribute '{attr}'{hint}"
        raise UnknownComponentError(explain.at(where, message)) from error
    return Resolved(text, found, None, partial(_facts, text, module))


def _home(found: object) -> object:
    return getattr(found, "__module__", "")


def _module(kind: str, text: str, left: str, where: str) -> ModuleType:
    file = left.endswith(".py") or "/" in left or "\\" in left
    if file and not os.path.isfile(left):  # noqa: PTH113
        here = explain.beside(text)
        hint = "" if here else "go to the folder that it is in, or write where it is"
        message = here or f"no file '{left}' in {os.getcwd()}"  # noqa: PTH109
        raise UnknownComponentError(explain.at(where, message), hint=hint)
    try:
        if not file:
            importable(os.getcwd())  # noqa: PTH109 - as `python -m` does
        return _file(left) if file else importlib.import_module(left)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing and not file and f"{left}.".startswith(f"{missing}."):
            raise UnknownComponentError(explain.at(where, f"no module '{missing}'")) from error
        raise explain.failed(f"{kind} '{text}'", left, error, where) from error


def _file(path: str) -> ModuleType:
    from pathlib import Path

    return import_file(Path(path))


def _facts(text: str, module: ModuleType) -> dict[str, Any]:
    source = file_digest(module.__file__) if module.__file__ else ""
    facts = {"type": text, "dist": "", "version": "", "target": text}
    return {**facts, "source": source, "editable": False}
