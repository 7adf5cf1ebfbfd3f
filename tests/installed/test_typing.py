"""Type checkers on a stranger's project: the public API is typed, installed either way (R17)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dicore_tools.commands.new import kinds, write_plugin
from tests.installed.conftest import InstalledWheels
from tests.registry.environment import ROOT, environ

pytestmark = pytest.mark.installed

MINE = """
from typing import Any

import dicore
from dicore.config import ComponentConfig, component, frozen, option


@frozen(kw_only=True)
class MineConfig(ComponentConfig):
    size: int = option(3, "rows", ge=1)
    name: str = option("x", "what it is called")
    model: Any = component("model", help="the network")

    def build(self, ctx: Any, **parts: Any) -> int:
        return self.size


@dicore.register("buffer", "mine")
def mine(size: int = 3) -> list[int]:
    return [size]


good = MineConfig(size=3, name="y")
number: int = good.size
numbers: list[int] = mine(size=4)
MineConfig(size="three")  # wrong
MineConfig(sise=3)  # wrong
good.size = 4  # wrong
mine(size="four")  # wrong
"""
TESTED = """
from dicore.testing import Check, parametrize


@parametrize(dist="mine")
def test_component(check: Check) -> None:
    check()
    number: str = check.name
    check.nmae  # wrong
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE.lstrip())
    (tmp_path / "test_mine.py").write_text(TESTED.lstrip())
    return tmp_path


def wrong(text: str) -> set[int]:
    return {number for number, line in enumerate(text.splitlines(), 1) if "# wrong" in line}


def check(project: Path, *words: str) -> dict[str, set[int]]:
    """Runs a checker; returns the lines that it complains about, by file."""
    tool = Path(sys.executable).parent / words[0]
    done = subprocess.run(
        [str(tool), *words[1:]], cwd=project, capture_output=True, text=True, check=False,
        env=environ(), timeout=240,
    )  # fmt: skip
    found: dict[str, set[int]] = {}
    for file, line in re.findall(r"(\w+\.py):(\d+):(?:\d+)?.*error", done.stdout):
        found.setdefault(file, set()).add(int(line))
    assert found, done.stdout + done.stderr
    return found


@pytest.mark.parametrize("editable", [False, True])
def test_pyright(installed: InstalledWheels, project: Path, editable: bool) -> None:
    python = sys.executable if editable else str(installed.all.python_path)
    files = ("mine.py", "test_mine.py")
    found = check(project, "basedpyright", "--pythonpath", python, "--level", "error", *files)
    assert found == {
        "mine.py": wrong((project / "mine.py").read_text()),
        "test_mine.py": wrong((project / "test_mine.py").read_text()),
    }


@pytest.mark.soak  # half a minute, for what basedpyright and the next test see too
def test_mypy(project: Path, pytestconfig: pytest.Config) -> None:
    """On the editable install, whose place is always the same: what mypy knows of it is kept."""
    known = pytestconfig.cache.mkdir("mypy")  # type: ignore[union-attr] # pytest's own plugin
    words = ("--strict", "--python-executable", sys.executable, "--cache-dir", str(known))
    assert check(project, "mypy", *words, "mine.py") == {
        "mine.py": wrong((project / "mine.py").read_text())
    }


def test_generated_packages_of_every_kind_are_typed(tmp_path: Path) -> None:
    """With their tests, which share their names: each is checked as a module of its own package.

    With the options and the cache of `make lint`, which has checked what they import.
    """
    wanted = []
    for kind, agents in [*((each, 1) for each in kinds()), ("env", 2), ("policy", 2)]:
        name = f"my-{kind}" if agents == 1 else f"my-team-{kind}"
        folder = write_plugin(name, kind, folder=tmp_path / name, agents=agents)
        package = next(folder.glob("my_*"))
        for test in (folder / "tests").glob("*.py"):
            (package / f"{test.stem}_of_it.py").write_text(test.read_text())
        wanted.append(package)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", *map(str, wanted)],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert len(wanted) > 20
