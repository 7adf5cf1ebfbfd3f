"""`run.json`: what ran, where, with what, and how it ended."""

from __future__ import annotations

import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dicore.config.secrets import redact_diff, redact_words
from dicore.run.atomic import write_file
from dicore.run.folder import process_info

__all__ = ["RunMetadata", "RunResult", "changed_code", "git_revision", "limits_of", "result_of"]

_PACKAGES = (
    *("dicore", "dicore-plugins", "dicore-tools", "dicore-contrib-envs"),
    *("torch", "numpy", "gymnasium"),
)


@dataclass
class RunResult:
    """How a run ended; `run.json` holds it under `result`.

    Args:
        stop: The stop value was reached.
        train_iter: Updates made.
        env_step: Env steps collected.
        best_return: Best mean return of an evaluation; None before the first.
        wall_s: Seconds from the first env step to before the final save.
    """

    stop: bool = False
    train_iter: int = 0
    env_step: int = 0
    best_return: float | None = None
    wall_s: float = 0.0


class RunMetadata:
    """Writes `run.json`, atomically, at the start and at the end of a run.

    Args:
        path: The file.
        seed: Seed of the run.
        argv: The command line, or what called instead.
        components: `{path: {type, dist, version, target}}` of every component.
        limits: When the run ends.
    """

    def __init__(
        self,
        path: Path,
        *,
        seed: int,
        argv: Sequence[str],
        components: Mapping[str, Mapping[str, Any]],
        limits: Mapping[str, Any] | None = None,
    ) -> None:
        self._path = path
        self._began = _now()
        self._facts: dict[str, Any] = {
            "seed": seed,
            "argv": redact_words(argv),
            **process_info(),
            "limits": _plain(dict(limits or {})),
            "components": {path: dict(facts) for path, facts in components.items()},
            "versions": _versions(),
            "platform": platform.platform(),
            "git": git_revision(Path.cwd()),
            "dirty": None if (patch := changed_code(Path.cwd())) is None else bool(patch),
        }
        self._patch = patch or ""

    def go_on(self, checkpoint: str | None, env_step: int, train_iter: int) -> None:
        """Takes over the beginning of a run that goes on, and notes that it does.

        Args:
            checkpoint: What it goes on from; None: from the beginning.
            env_step: Env steps collected so far.
            train_iter: Updates made so far.
        """
        now, argv = self._began, self._facts["argv"]
        try:
            old = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            old = {}
        old = old if isinstance(old, dict) else {}
        earlier = old.get("resumed", [])
        self._began = old.get("started", now)
        self._facts["argv"] = old.get("argv", argv)
        self._facts["resumed"] = [
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
        """Writes the file as things stand.

        Args:
            status: `running`, `done`, `interrupted` or `failed`.
            result: None while running.
            error: What went wrong, if something did.

        Raises:
            OSError: the disk refuses.
        """
        content = {
            **self._facts,
            "status": status,
            "error": error or None,
            "started": self._began,
            "finished": None if status == "running" else _now(),
            "result": None if result is None else _plain(asdict(result)),
        }
        text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)
        self._write_patch()
        write_file(self._path, text.encode("utf-8", "replace") + b"\n")

    def _write_patch(self) -> None:
        """Writes `code.diff` once; that of a run that goes on stands beside that of its begin."""
        patch, self._patch = self._patch, ""
        if not patch:
            return
        resumed = len(self._facts.get("resumed", ()))
        name = f"code_{resumed}.diff" if resumed else "code.diff"
        write_file(self._path.with_name(name), patch.encode("utf-8", "replace"))


def result_of(path: Path) -> dict[str, Any]:
    """Returns the `result` that a run's record tells; nothing where there is none."""
    return _member(path, "result")


def limits_of(path: Path) -> dict[str, Any]:
    """Returns the `limits` that a run's record tells; nothing where there are none."""
    return _member(path, "limits")


def _member(path: Path, name: str) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))[name]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return value if isinstance(value, dict) else {}


def git_revision(folder: Path) -> str | None:
    """Returns the commit checked out in the repository around `folder`, None if there is none.

    Reads git's own files: starting git would cost more than the rest of a run's start.
    """
    try:
        for each in (folder, *folder.parents):
            place = each / ".git"
            if place.is_file():  # a linked work tree
                text = place.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
                return _head(each / text)
            if place.is_dir():
                return _head(place)
    except (OSError, UnicodeDecodeError):
        return None
    return None


def _head(place: Path) -> str | None:
    head = (place / "HEAD").read_text(encoding="utf-8").strip()
    if not head.startswith("ref:"):
        return head
    name = head.removeprefix("ref:").strip()
    shared = place / "commondir"
    roots = [place]
    if shared.is_file():
        roots.append(place / shared.read_text(encoding="utf-8").strip())
    for root in roots:
        if (root / name).is_file():
            return (root / name).read_text(encoding="utf-8").strip()
        packed = root / "packed-refs"
        if packed.is_file():
            for line in packed.read_text(encoding="utf-8").splitlines():
                if line.endswith(f" {name}"):
                    return line.split(" ", 1)[0]
    return None


def _versions() -> dict[str, str | None]:
    from importlib.metadata import PackageNotFoundError, version

    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in _PACKAGES:
        module = sys.modules.get(package.replace("-", "_"))
        known = getattr(module, "__version__", None)
        try:
            found[package] = str(known) if known is not None else version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


_PATIENCE = 2.0
_LONGEST = 2 << 20
_COMMAND = (
    *("git", "diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--ignore-submodules", "--src-prefix=a/", "--dst-prefix=b/"),
)


def changed_code(folder: Path) -> str | None:
    """Returns what was changed in files that git keeps since the revision checked out.

    Args:
        folder: Anywhere in a working tree.

    Returns:
        A patch without secrets, cut at 2 MiB, "" where nothing was changed; None outside of a
        repository, without git or a revision, or where git takes more than two seconds.
    """
    if not any((each / ".git").exists() for each in (folder, *folder.parents)):
        return None
    try:
        done = subprocess.run(  # noqa: S603 - the words are our own
            _COMMAND,
            cwd=folder,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode != 0:
        return None
    text = done.stdout.decode("utf-8", "replace")
    if len(text) > _LONGEST:
        whole = text[:_LONGEST].rpartition("\n")[0]  # half a line might hold half a secret
        text = f"{whole}\n({len(text) - len(whole)} more characters)\n"
    return redact_diff(text)
