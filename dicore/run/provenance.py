"""Whether the code that a run started from is what its revision says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

__all__ = ["is_dirty"]

_PATIENCE = 2.0


def is_dirty(folder: Path) -> bool | None:
    """Says whether files that git keeps were changed since the revision checked out.

    Args:
        folder: Anywhere in a working tree.

    Returns:
        None outside of a repository, without git, or where git takes more than two seconds.
    """
    if not any((each / ".git").exists() for each in (folder, *folder.parents)):
        return None
    command = ["git", "status", "--porcelain", "--untracked-files=no", "--ignore-submodules"]
    try:
        done = subprocess.run(  # noqa: S603 - the words are our own
            command,
            cwd=folder,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return bool(done.stdout.strip()) if done.returncode == 0 else None
