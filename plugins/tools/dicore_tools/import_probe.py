"""Imports targets in a process of its own and tells how each went.

For `dicore doctor --import` and `dicore list --load`. Reads
`{"path": sys.path, "targets": […], "torch": bool}` from standard input and writes one line of JSON
per target. Without `torch` the import of torch fails, and who asked for it is told.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

__all__ = ["Outcome", "probe_imports"]

_PATIENCE = 120.0
"""Seconds that all imports of one process may take."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the import of one target went.

    Args:
        target: `module:attr`, or a module.
        error: What it raised; "" for nothing.
        seconds: How long it took; what was imported before costs nothing.
        torch: Where it asked for torch (`file:line`), if that was kept away.
        is_config: It is a config class.
    """

    target: str
    error: str = ""
    seconds: float = 0.0
    torch: str = ""
    is_config: bool = False


def probe_imports(targets: Sequence[str], *, torch: bool) -> dict[str, Outcome]:
    """Imports targets one after the other; one that ends the process does not end the others.

    Args:
        targets: What to import.
        torch: Let them import torch; otherwise that fails, and who asked for it is told.
    """
    found: dict[str, Outcome] = {}
    todo = list(dict.fromkeys(targets))
    while todo:
        order = json.dumps({"path": sys.path, "targets": todo, "torch": torch})
        lines, ending = _ask(order)
        outcomes = [Outcome(**json.loads(line)) for line in lines if line[:1] == "{"]
        found |= {each.target: each for each in outcomes}
        todo = [target for target in todo if target not in found]
        if todo:
            culprit = todo.pop(0)
            found[culprit] = Outcome(culprit, error=f"its import {ending}")
    return found


def _ask(order: str) -> tuple[list[str], str]:
    """Lets a process do the imports; returns the lines it wrote, and how it ended.

    It writes to files, since whatever an import starts might keep a pipe open for good; all that
    is still there at the end goes with it.
    """
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "dicore_tools.import_probe"],
            stdin=subprocess.PIPE, stdout=said, stderr=errors, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            process.communicate(order, timeout=_PATIENCE)
            errors.seek(0)
            last = (errors.read().strip().splitlines() or [""])[-1]
            ending = f"ended the process with {process.returncode}: {last}".rstrip(": ")
        except subprocess.TimeoutExpired:
            ending = f"did not end within {_PATIENCE:g} s"
        finally:
            _end(process)
        said.seek(0)
        return said.read().splitlines(), ending


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a process and everything that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (AttributeError, ProcessLookupError, PermissionError):
        process.kill()  # no groups here, or nobody left in it
    process.wait()


class _NoTorch:
    """Keeps torch away and remembers who asked for it."""

    asked = ""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name == "torch":
            stack = [each for each in traceback.extract_stack() if "importlib" not in each.filename]
            _NoTorch.asked = f"{stack[-2].filename}:{stack[-2].lineno}"
            raise ModuleNotFoundError("torch is kept away by dicore doctor", name="torch")


def _import(target: str) -> Outcome:
    from dicore.config.declare import ComponentConfig
    from dicore_registry import explain

    module, _, attr = target.partition(":")
    before = set(sys.modules)
    _NoTorch.asked = error = ""
    found: Any = None
    start = time.perf_counter()
    try:
        found = importlib.import_module(module)
        for part in filter(None, attr.split(".")):
            found = getattr(found, part)
    except BaseException as wrong:
        error = explain.brief(wrong)
    seconds = time.perf_counter() - start
    if _NoTorch.asked:  # what is half imported would hide that the next one asks, too
        for name in set(sys.modules) - before:
            sys.modules.pop(name)
    is_config = isinstance(found, type) and issubclass(found, ComponentConfig)
    return Outcome(target, error, round(seconds, 4), _NoTorch.asked, is_config)


def _main() -> None:
    order = json.load(sys.stdin)
    sys.path[:] = order["path"]
    if not order["torch"]:
        finder: Any = _NoTorch()
        sys.meta_path.insert(0, finder)
    import dicore.config  # its own import is nobody's fault

    assert isinstance(dicore.config, ModuleType)
    sys.stdout = sys.stderr
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a module prints, or writes by itself, is no answer
    for target in order["targets"]:
        outcome = _import(target)
        facts = {name: getattr(outcome, name) for name in Outcome.__slots__}
        out.write(json.dumps(facts) + "\n")
        out.flush()
    os._exit(0)  # threads that an import left running would keep the process


if __name__ == "__main__":
    _main()
