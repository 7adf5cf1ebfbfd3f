"""In what the code that a run started from differs from what its revision says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from dicore.config.secrets import redact_diff

__all__ = ["changed_code"]

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
