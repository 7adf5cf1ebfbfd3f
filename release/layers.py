"""New environments on top of one that has what they share, so that torch is installed once."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from dist import new_environment

_SITE = "import sysconfig; print(sysconfig.get_path('purelib'))"


def layer(folder: Path, below: str, wheels: Sequence[str] = ()) -> str:
    """Creates an environment that has what another has, and installs wheels into it.

    Args:
        folder: A new folder.
        below: The interpreter of the other environment, in which nothing is changed.
        wheels: Wheels, installed without what they require.

    Returns:
        Its interpreter.
    """
    inside = new_environment(folder, below)
    [site] = _lines([inside, "-c", _SITE])
    [shared] = _lines([below, "-c", _SITE])
    line = f"import site; site.addsitedir({shared!r})\n"
    (Path(site) / "shared.pth").write_text(line, encoding="utf-8")
    if wheels:
        words = ["install", "-q", "--no-deps", "--no-index", "--force-reinstall", *wheels]
        _lines([inside, "-m", "pip", *words])
    return inside


def _lines(words: Sequence[str]) -> list[str]:
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:4])} …: {done.stderr.strip()}")
    return done.stdout.splitlines()
