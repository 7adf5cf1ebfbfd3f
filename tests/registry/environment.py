"""Fresh Python environments that see what dicore depends on and, of dicore packages, nothing.

Making one costs a tenth of a second: what is installed already is linked, not installed again.
"""

from __future__ import annotations

import atexit
import importlib.metadata
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAIN = "import sys; from dicore.cli import main; sys.exit(main())"


class Environment:
    """A virtual environment in a folder.

    Args:
        folder: Where it is, or is to be made.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python_path = folder / "bin" / "python"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site = folder / "lib" / version / "site-packages"
        if not folder.exists():
            venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
            _link(folder / "linked")
            (self.site / "linked.pth").write_text(f"{folder / 'linked'}\n")

    def install(self, wheels: Iterable[Path]) -> None:
        """Installs wheels by pip, without a network and without what they depend on."""
        done = subprocess.run(
            [
                *(sys.executable, "-m", "pip", f"--python={self.python_path}", "install"),
                *("--no-deps", "--no-index", "--no-compile", "--quiet"),
                *("--disable-pip-version-check", *map(str, wheels)),
            ],
            capture_output=True, text=True, check=False, env=environ(),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def run(
        self, *words: str, cwd: Path, timeout: float = 120, **changes: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs the environment's Python with these words, its output piped."""
        return subprocess.run(
            [str(self.python_path), *words],
            env={**environ(), **changes}, cwd=cwd, timeout=timeout,
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    def dicore(
        self, *words: str, cwd: Path, timeout: float = 120, **changes: str
    ) -> subprocess.CompletedProcess[str]:
        """Runs `dicore` with these words, its output piped."""
        return self.run("-c", MAIN, *words, cwd=cwd, timeout=timeout, **changes)


def environ() -> dict[str, str]:
    """Returns the environment of processes: ours, without what concerns Python's path or dicore."""
    dropped = ("DICORE_", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PYTEST_")
    return {key: value for key, value in os.environ.items() if not key.startswith(dropped)}


def _link(folder: Path) -> None:
    """Links everything installed but dicore, what belongs to it, and import hooks."""
    folder.mkdir()
    ours = {"dicore", "dicore_registry", "dicore_plugins", "dicore_contrib_envs", "dicore_tools"}
    ours.add("__pycache__")
    for dist in importlib.metadata.distributions():
        text = dist.read_text("entry_points.txt") or ""
        path = getattr(dist, "_path", None)
        if path is not None and ("[dicore" in text or dist.metadata["name"].startswith("dicore")):
            ours.add(path.name)
    added = [path for path in sys.path if path.endswith("site-packages")]  # also by .pth files
    for site in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *added}:
        for each in Path(site).iterdir():
            hook = each.suffix == ".pth" or each.name.startswith("__editable__")
            if each.name not in ours and not hook and not (folder / each.name).exists():
                (folder / each.name).symlink_to(each)


@cache
def hermetic() -> Environment:
    """Returns an environment without any dicore package, one for all tests of a process."""
    folder = Path(tempfile.mkdtemp(prefix="dicore-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Environment(folder / "venv")
