"""`run.json`: command line, versions, code revision, components and result of a run."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from dicore.config.redact import REDACTED, is_secret, redacted
from dicore.run.atomic import write_file
from dicore.run.folder import process_info

__all__ = ["RunMetadata", "RunResult", "code_state", "saved_member"]

_NAME = r"""(?<![\w.-])([\w.-]++)(["']?\s*[:=]\s*)"""  # not from inside a word: that is quadratic
_QUOTED = re.compile(_NAME + r"""("[^"]+"|'[^']+')""")
_BARE = re.compile(_NAME + r"""("[^"]+"|'[^']+'|[^\s,}\]#]+)""")
_SETTINGS = re.compile(r"\.(ya?ml|toml|json|ini|cfg|conf|env|properties)(\.\w+)?$|/\.env$")
_PACKAGES: Final = (
    *("dicore", "dicore-plugins", "dicore-tools", "dicore-contrib-envs"),
    *("torch", "numpy", "gymnasium"),
)
_GIT_TIMEOUT_S: Final = 2.0
_MAX_PATCH_CHARS: Final = 2 << 20
_REVISION: Final = ("rev-parse", "--verify", "HEAD")
_DIFF: Final = (
    *("diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--ignore-submodules", "--src-prefix=a/", "--dst-prefix=b/"),
)


@dataclass
class RunResult:
    """How a run ended; `result` in `run.json`.

    `stop`: the stop value was reached; `best_return` is None before the first evaluation; `wall_s`
    are the seconds from the first env step to before the final save.
    """

    stop: bool = False
    train_iter: int = 0
    env_step: int = 0
    best_return: float | None = None
    wall_s: float = 0.0


class RunMetadata:
    """Writes `run.json`, atomically, at the start and at the end of a run."""

    def __init__(
        self,
        path: Path,
        *,
        seed: int,
        argv: Sequence[str],
        components: Mapping[str, Mapping[str, Any]] | None = None,
        limits: Mapping[str, Any] | None = None,
    ) -> None:
        self._path = path
        self._started = _now()
        self._values: dict[str, Any] = {
            "seed": seed,
            "argv": redact_words(argv),
            **process_info(),
            "limits": _finite(dict(limits or {})),
            "components": {path: dict(provider) for path, provider in (components or {}).items()},
            "versions": _versions(),
            "platform": platform.platform(),
        }

    def resume(self, checkpoint: str | None, env_step: int, train_iter: int) -> None:
        """Takes over start time and command line of the existing file, and adds a resumption."""
        now, argv = self._started, self._values["argv"]
        try:
            old = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            old = {}
        old = old if isinstance(old, dict) else {}
        earlier = old.get("resumed", [])
        self._started = old.get("started", now)
        self._values["argv"] = old.get("argv", argv)
        self._values["resumed"] = [
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
        if "git" not in self._values:
            self._record_code()
        content = {
            **self._values,
            "status": status,
            "error": error or None,
            "started": self._started,
            "finished": None if status == "running" else _now(),
            "result": None if result is None else _finite(asdict(result)),
        }
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        write_file(self._path, text.encode("utf-8", "replace") + b"\n")

    def _record_code(self) -> None:
        """Records commit and changes of the code; a resumed run writes `code_N.diff`."""
        self._values["git"], patch = code_state(Path.cwd())
        self._values["dirty"] = None if patch is None else bool(patch)
        if patch:
            resumed = len(self._values.get("resumed", ()))
            name = f"code_{resumed}.diff" if resumed else "code.diff"
            write_file(self._path.with_name(name), patch.encode("utf-8", "replace"))


def saved_member(path: Path, name: str) -> dict[str, Any]:
    """Returns `result` or `limits` of a `run.json`; empty if there is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))[name]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return value if isinstance(value, dict) else {}


def code_state(folder: Path) -> tuple[str | None, str | None]:
    """Returns the commit checked out around `folder`, and a patch of the uncommitted changes.

    Both are None without git or a commit, or if git takes more than two seconds. Secrets in the
    patch are redacted; it is cut at 2 MiB.
    """
    revision, diff = (_start_git(folder, command) for command in (_REVISION, _DIFF))
    commit, patch = _output(revision), _output(diff)
    if patch is not None and len(patch) > _MAX_PATCH_CHARS:
        whole = patch[:_MAX_PATCH_CHARS].rpartition("\n")[0]  # a cut line might show half a secret
        patch = f"{whole}\n({len(patch) - len(whole)} more characters)\n"
    return commit and commit.strip(), patch and redact_diff(patch)


def _start_git(folder: Path, command: Sequence[str]) -> subprocess.Popen[bytes] | None:
    if not any((each / ".git").exists() for each in (folder, *folder.parents)):
        return None
    try:
        return subprocess.Popen(  # noqa: S603 - the command is constant
            ("git", *command),  # noqa: S607 - the git of PATH
            cwd=folder,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return None


def _output(process: subprocess.Popen[bytes] | None) -> str | None:
    if process is None:
        return None
    with process:
        try:
            out, _ = process.communicate(timeout=_GIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            return None
    return out.decode("utf-8", "replace") if process.returncode == 0 else None


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


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def redact_words(words: Sequence[str]) -> list[str]:
    """Returns a command line without its secrets: `a.token=x`, and those in JSON objects."""
    return [_redact_word(word) for word in words]


def _redact_word(word: str) -> str:
    if word.startswith("{"):
        try:
            return json.dumps(redacted(json.loads(word)), ensure_ascii=False)
        except (ValueError, RecursionError):
            return word
    path, equals, value = word.partition("=")
    if equals and value:
        if value.startswith("{"):
            return f"{path}={_redact_word(value)}"
        if is_secret(path.removeprefix("--")) and "${env:" not in value:
            return f"{path}={REDACTED}"
    return word


def redact_diff(patch: str) -> str:
    """Returns a patch without the texts that its lines assign to secret names.

    In code these texts are quoted; in YAML, TOML and other settings they need not be.
    """
    lines, pattern = [], _QUOTED
    for line in patch.split("\n"):
        if line.startswith("+++ "):
            pattern = _BARE if _SETTINGS.search(line.rstrip()) else _QUOTED
        elif line.startswith(("+", "-", " ")):
            line = pattern.sub(_redact_match, line)  # noqa: PLW2901 - the same line
        lines.append(line)
    return "\n".join(lines)


def _redact_match(match: re.Match[str]) -> str:
    name, between, value = match.groups()
    hide = is_secret(name) and "${env:" not in value
    return f"{name}{between}{REDACTED}" if hide else match[0]
