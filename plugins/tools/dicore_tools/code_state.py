"""The code that a run starts from: git revision, and uncommitted changes without secrets."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dicore.config.redact import REDACTED, is_secret

__all__ = ["code_state"]

_NAME = r"""(?<![\w.-])([\w.-]++)(["']?\s*[:=]\s*)"""  # not from inside a word: that is quadratic
_QUOTED = re.compile(_NAME + r"""("[^"]+"|'[^']+')""")
_BARE = re.compile(_NAME + r"""("[^"]+"|'[^']+'|[^\s,}\]#]+)""")
_SETTINGS = re.compile(r"\.(ya?ml|toml|json|ini|cfg|conf|env|properties)(\.\w+)?$|/\.env$")
_GIT_TIMEOUT_S: Final = 2.0
_MAX_PATCH_CHARS: Final = 2 << 20
_REVISION: Final = ("rev-parse", "--verify", "HEAD")
_DIFF: Final = (
    *("diff", "HEAD", "--no-color", "--no-ext-diff", "--no-textconv"),
    *("--ignore-submodules", "--src-prefix=a/", "--dst-prefix=b/"),
)


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
