"""Imports components in a separate process and reports the outcome of each.

Used by `dicore doctor --import` and `dicore list --load`. The process reads
`{"path": sys.path, "targets": […], "torch": bool}` from standard input and writes one line of JSON
per target. Without `torch`, importing torch fails and the importing line is reported.
"""

from __future__ import annotations

import importlib
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import psutil

if TYPE_CHECKING:
    from dicore_registry import Entry

__all__ = ["MARK", "Outcome", "kill_group", "marked", "probe_imports"]

MARK: Final = "DICORE_STARTED_FOR"
"""Variable by which processes are found that a process started."""

_TIMEOUT_S = 120.0
"""Time limit for all imports of one process."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of importing one target.

    Args:
        target: `module:attr`, or a module.
        error: The exception; "" on success.
        seconds: Duration, without modules that were already imported.
        torch: `file:line` that imports torch, if torch was blocked.
        is_config: Whether the target is a config class.
        kind_of_value: The type of a target that is neither a class, a function nor a dict.
    """

    target: str
    error: str = ""
    seconds: float = 0.0
    torch: str = ""
    is_config: bool = False
    kind_of_value: str = ""

    def problem(self, entry: Entry) -> str:
        """Returns why the target cannot be used as what an entry declares; "" if it can."""
        if self.error:
            return f"failed to import {entry.module}: {self.error}"
        if self.kind_of_value and entry.kind not in ("api", "config_format", "plugin", "run_file"):
            wanted = "a dict" if entry.kind == "preset" else "a class or function"
            return f"leads to {self.target} of type {self.kind_of_value}, not to {wanted}"
        return ""


def probe_imports(targets: Sequence[str], *, torch: bool) -> dict[str, Outcome]:
    """Imports targets one after another; if one ends the process, a new one imports the rest.

    Args:
        targets: `module:attr`, or modules.
        torch: Allow importing torch; otherwise it fails, and the importing line is reported.
    """
    found: dict[str, Outcome] = {}
    todo = list(dict.fromkeys(targets))
    while todo:
        order = json.dumps({"path": sys.path, "targets": todo, "torch": torch})
        lines, ending = _run(order)
        outcomes = [Outcome(**json.loads(line)) for line in lines if line[:1] == "{"]
        found |= {each.target: each for each in outcomes}
        todo = [target for target in todo if target not in found]
        if todo:
            culprit = todo.pop(0)
            found[culprit] = Outcome(culprit, error=f"its import {ending}")
    return found


def _run(order: str) -> tuple[list[str], str]:
    """Runs the process; returns the lines it wrote and how it ended.

    It writes to files, because processes started by an import could keep a pipe open. They are
    killed at the end.
    """
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        env = marked()
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "dicore_tools.import_probe"], env=env,
            stdin=subprocess.PIPE, stdout=output, stderr=errors, text=True, start_new_session=True,
        )  # fmt: skip
        try:
            process.communicate(order, timeout=_TIMEOUT_S)
            errors.seek(0)
            last = (errors.read().strip().splitlines() or [""])[-1]
            ending = f"ended the process with {process.returncode}: {last}".rstrip(": ")
        except subprocess.TimeoutExpired:
            ending = f"did not end within {_TIMEOUT_S:g} s"
        finally:
            kill_group(process, env[MARK])
        output.seek(0)
        return output.read().splitlines(), ending


def marked() -> dict[str, str]:
    """Returns the environment of a process of which `kill_group` leaves nothing."""
    return {**os.environ, MARK: secrets.token_hex(8)}


def kill_group(process: subprocess.Popen[str], mark: str) -> None:
    """Kills a process, its group, and what began a group of its own, known by the environment.

    Args:
        process: The process.
        mark: Value of `MARK` in the environment with which it was started.
    """
    if sys.platform == "win32":
        process.kill()
    else:
        with suppress(ProcessLookupError, PermissionError):  # the group is empty
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for each in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if each.environ().get(MARK) == mark:
                each.kill()


class _TorchBlocker:
    """Import hook that blocks torch and records the importing line."""

    importer = ""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "torch":
            stack = [each for each in traceback.extract_stack() if "importlib" not in each.filename]
            _TorchBlocker.importer = f"{stack[-2].filename}:{stack[-2].lineno}"
            raise ModuleNotFoundError("torch is blocked by dicore doctor", name="torch")


def _import(target: str) -> Outcome:
    from dicore.config.schema import ComponentConfig
    from dicore_registry import Kind, Removed, Renamed, explain

    module, _, attr = target.partition(":")
    before = set(sys.modules)
    _TorchBlocker.importer = error = ""
    found: Any = None
    start = time.perf_counter()
    try:
        found = importlib.import_module(module)
        for part in filter(None, attr.split(".")):
            found = getattr(found, part)
    except BaseException as wrong:
        error = explain.brief(wrong)
    seconds = time.perf_counter() - start
    if _TorchBlocker.importer:  # partly imported modules would hide further imports of torch
        for name in set(sys.modules) - before:
            sys.modules.pop(name)
    is_config = isinstance(found, type) and issubclass(found, ComponentConfig)
    expected = callable(found) or isinstance(found, Mapping | Kind | Removed | Renamed)
    value = "" if error or expected else type(found).__name__
    return Outcome(target, error, round(seconds, 4), _TorchBlocker.importer, is_config, value)


def _main() -> None:
    order = json.load(sys.stdin)
    sys.path[:] = order["path"]
    if not order["torch"]:
        finder: Any = _TorchBlocker()
        sys.meta_path.insert(0, finder)
    import numpy as np  # can be imported only once, see `_import`

    import dicore.config  # so that its import time is not attributed to a target

    assert isinstance(dicore.config, ModuleType)
    assert isinstance(np, ModuleType)
    sys.stdout = sys.stderr
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # modules may print
    for target in order["targets"]:
        outcome = _import(target)
        facts = {name: getattr(outcome, name) for name in Outcome.__slots__}
        out.write(json.dumps(facts) + "\n")
        out.flush()
    os._exit(0)  # threads started by an import would keep the process running


if __name__ == "__main__":
    _main()
