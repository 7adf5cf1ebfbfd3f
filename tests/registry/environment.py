"""New Python environments that have what dicore depends on, but no dicore package.

Making one takes a tenth of a second: installed packages are linked, not installed again.
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
import tomllib
import venv
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from dicore_registry.requirements import Requirement
from tests import warm

ROOT = Path(__file__).parents[2]
MAIN = "import sys; from dicore.cli import main; sys.exit(main())"


class Environment:
    """A virtual environment in a folder.

    Args:
        folder: Its folder; made if it does not exist.
        projects: Link only what the `pyproject.toml` files of these folders require; None: every
            installed package.
    """

    def __init__(self, folder: Path, projects: Iterable[Path] | None = None) -> None:
        self.folder = folder
        self.python_path = folder / "bin" / "python"
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self.site = folder / "lib" / version / "site-packages"
        if not folder.exists():
            venv.EnvBuilder(symlinks=True, with_pip=False).create(folder)
            _link(folder / "linked", None if projects is None else _required(projects))
            (self.site / "linked.pth").write_text(f"{folder / 'linked'}\n")
        if projects is None:
            warm.INTERPRETERS.add(str(self.python_path))

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


def _required(projects: Iterable[Path]) -> set[str]:
    """Returns the top-level files of what projects require, of dicore's own packages apart."""
    tables = [tomllib.loads((each / "pyproject.toml").read_text())["project"] for each in projects]
    todo = [line for table in tables for line in table["dependencies"]]
    names: set[str] = set()
    files: set[str] = set()
    while todo:
        wanted = Requirement.parse(todo.pop())
        assert wanted is not None
        if wanted.name.startswith("dicore") or wanted.name in names or not wanted.applies():
            continue
        names.add(wanted.name)
        dist = importlib.metadata.distribution(wanted.name)
        todo += dist.requires or []
        files |= {file.parts[0] for file in dist.files or []}
    return files


def _link(folder: Path, only: set[str] | None) -> None:
    """Links everything installed (or `only` these) but dicore's packages and import hooks."""
    folder.mkdir()
    ours = {"dicore", "dicore_registry", "dicore_plugins", "dicore_contrib_envs", "dicore_tools"}
    ours |= {"dicore_compat", "dicore_dist", "__pycache__"}
    for dist in importlib.metadata.distributions():
        text = dist.read_text("entry_points.txt") or ""
        path = getattr(dist, "_path", None)
        if path is not None and ("[dicore" in text or dist.metadata["name"].startswith("dicore")):
            ours.add(path.name)
    added = [path for path in sys.path if path.endswith("site-packages")]  # also by .pth files
    for site in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *added}:
        for each in Path(site).iterdir():
            hook = each.suffix == ".pth" or each.name.startswith("__editable__")
            if only is not None and each.name not in only:
                continue
            if each.name not in ours and not hook and not (folder / each.name).exists():
                (folder / each.name).symlink_to(each)


@cache
def hermetic() -> Environment:
    """Returns an environment without any dicore package, one for all tests of a process."""
    folder = Path(tempfile.mkdtemp(prefix="dicore-tests-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Environment(folder / "venv")
