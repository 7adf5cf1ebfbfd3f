"""New environments on top of one that has what they share, so that torch is installed once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_SITE = "import sysconfig; print(sysconfig.get_path('purelib'))"


def layer(folder: Path, below: str) -> str:
    """Creates an environment that has what another has.

    Args:
        folder: A new folder.
        below: The interpreter of the other environment, in which nothing is changed.

    Returns:
        Its interpreter.
    """
    _lines([below, "-m", "venv", "--without-pip", str(folder)])
    scripts = "Scripts" if sys.platform == "win32" else "bin"
    inside = str(folder / scripts / "python")
    [site] = _lines([inside, "-c", _SITE])
    [shared] = _lines([below, "-c", _SITE])
    line = f"import site; site.addsitedir({shared!r})\n"
    (Path(site) / "shared.pth").write_text(line, encoding="utf-8")
    return inside


def install(inside: str, *words: str) -> str:
    """Installs into an environment by the pip of this one; returns what went wrong, or ""."""
    pip = [sys.executable, "-m", "pip", "--python", inside, "install", "-q"]
    done = subprocess.run([*pip, *words], capture_output=True, text=True, check=False)  # noqa: S603
    return done.stderr.strip() if done.returncode else ""


def _lines(words: Sequence[str]) -> list[str]:
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise SystemExit(f"{' '.join(words[:4])} …: {done.stderr.strip()}")
    return done.stdout.splitlines()
