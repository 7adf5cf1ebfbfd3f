"""`run.json`: command line, versions, code revision, components and result of a run."""

from __future__ import annotations

import json
import math
import platform
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from dicore.config.convert import parse_value
from dicore.config.redact import REDACTED, is_secret, redact_text, redacted
from dicore.errors import UnknownComponentError
from dicore.run.atomic import read_json, write_file
from dicore.run.folder import process_info
from dicore_registry import default
from dicore_registry.metadata import FIRST_PARTY

__all__ = ["RunMetadata", "RunResult", "saved_member"]

_PACKAGES: Final = (*sorted(FIRST_PARTY), "torch", "numpy", "gymnasium")


@dataclass
class RunResult:
    """How a run ended; `result` in `run.json`.

    `stop`: the stop value was reached; `best_return` is None before the first evaluation; `wall_s`
    are the seconds from the first env step to before the final save; `cpu_s` are the CPU seconds
    from the first env step until the processes of the run are ended, of all that are there then.
    """

    stop: bool = False
    train_iter: int = 0
    env_step: int = 0
    best_return: float | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0


class RunMetadata:
    """Writes `run.json`, atomically, at the start and at the end of a run."""

    def __init__(
        self,
        path: Path,
        *,
        seed: int,
        argv: Sequence[str],
        components: Mapping[str, Mapping[str, object]] | None = None,
        limits: Mapping[str, object] | None = None,
    ) -> None:
        self._path = path
        self._started = _now()
        self.values: dict[str, Any] = {
            "seed": seed,
            "argv": [redact_word(word) for word in argv],
            **process_info(),
            "limits": _finite(dict(limits or {})),
            "components": {path: dict(provider) for path, provider in (components or {}).items()},
            "versions": _versions(),
            "platform": platform.platform(),
        }

    def resume(self, checkpoint: str | None, env_step: int, train_iter: int) -> None:
        """Takes over start, command line and choices of the existing file; adds a resumption."""
        now, argv = self._started, self.values["argv"]
        try:
            old = read_json(self._path)
        except (OSError, ValueError):
            old = {}
        old = old if isinstance(old, dict) else {}
        earlier = old.get("resumed", [])
        self._started = old.get("started", now)
        self.values |= {name: old[name] for name in ("argv", "chosen", "preset") if name in old}
        self.values["resumed"] = [
            *(earlier if isinstance(earlier, list) else []),
            {
                "checkpoint": checkpoint,
                "env_step": env_step,
                "train_iter": train_iter,
                "argv": argv,
                "time": now,
            },
        ]

    def write(self, status: str, result: RunResult | None = None, error: str = "") -> None:
        """Writes the file; `status` is `running`, `done`, `interrupted` or `failed`."""
        if "git" not in self.values:
            self._record_code()
        content = {
            **self.values,
            "status": status,
            "error": error or None,
            "started": self._started,
            "finished": None if status == "running" else _now(),
            "result": None if result is None else _finite(asdict(result)),
        }
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        write_file(self._path, text.encode("utf-8", "replace") + b"\n")

    def _record_code(self) -> None:
        """Records commit and changes of the code, by dicore-tools; resumed: `code_N.diff`."""
        try:
            self.values["git"], patch = default().resolve("api", "code_state").target(Path.cwd())
        except UnknownComponentError:
            self.values["git"] = patch = None
        self.values["dirty"] = None if patch is None else bool(patch)
        if patch:
            resumed = len(self.values.get("resumed", ()))
            name = f"code_{resumed}.diff" if resumed else "code.diff"
            write_file(self._path.with_name(name), patch.encode("utf-8", "replace"))


def saved_member(path: Path, name: str) -> Any:
    """Returns `status`, or the dict `result` or `limits`, of a `run.json`; {} if there is none."""
    try:
        value = read_json(path)[name]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return value if isinstance(value, dict) or name == "status" else {}


def _versions() -> dict[str, str | None]:
    from importlib.metadata import PackageNotFoundError, version

    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        module = sys.modules.get(package.replace("-", "_"))
        known = getattr(module, "__version__", None)
        try:
            versions[package] = str(known) if known is not None else version(package)
        except PackageNotFoundError:
            versions[package] = None
    return versions


def _finite(values: dict[str, Any]) -> dict[str, object]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def redact_word(word: str) -> str:
    """Returns a word of a command line without secrets: `a.token=x`, and those in JSON objects."""
    path, equals, value = ("", "", word) if word.startswith("{") else word.partition("=")
    if value.startswith(("{", "[")):
        try:
            found = parse_value(value)  # JSON, or what YAML makes of it
        except (ValueError, RecursionError):
            return redact_text(word)
        shown = redacted(found, secret=is_secret(path))
        return word if shown == found else f"{path}{equals}{json.dumps(shown, ensure_ascii=False)}"
    hide = value and is_secret(path.removeprefix("--")) and "${env:" not in value
    return f"{path}={REDACTED}" if hide else redact_text(word)
