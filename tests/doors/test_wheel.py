"""A stranger's package, built into a real wheel and really installed; dicore is not touched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.registry.world import World

pytestmark = pytest.mark.doors

PYPROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "Dicore_Hello"
version = "0.3.1"
dependencies = ["dicore>=0.1"]

[project.optional-dependencies]
maps = ["a-package-that-is-not-there>=2"]

[project.entry-points."dicore.env"]
countdown = "dicore_hello:Countdown"
atlas = "dicore_hello.atlas:Atlas [maps]"

[project.entry-points."dicore.learner_hook"]
cheer = "dicore_hello.cheer:Cheer"

[project.entry-points."dicore.polcy"]
lost = "dicore_hello:Lost"

[tool.hatch.build.targets.wheel]
packages = ["dicore_hello"]
"""

INIT = '''"""A countdown: the smallest environment that can be learned."""

import gymnasium
import numpy as np


class Countdown(gymnasium.Env):
    """Count down to zero; action 1 decrements, action 0 waits.

    Args:
        start: Where to begin.
    """

    def __init__(self, start: int = 5, penalty: float = 0.01) -> None:
        self.start, self.penalty = start, penalty
        self.observation_space = gymnasium.spaces.Box(0, start, (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)
'''

CHEER = '''from dicore.interfaces.hook import LearnerHook


class Cheer(LearnerHook):
    """Says hurray."""

    def __init__(self, loud: bool = False) -> None:
        super().__init__("cheer", position="after_run")
        self.loud = loud
'''


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds the package with hatchling, without a network, and returns the wheel."""
    project = tmp_path_factory.mktemp("hello")
    package = project / "dicore_hello"
    package.mkdir()
    (project / "pyproject.toml").write_text(PYPROJECT)
    (package / "__init__.py").write_text(INIT)
    (package / "cheer.py").write_text(CHEER)
    (package / "atlas.py").write_text('class Atlas:\n    """A map of everything."""\n')
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(project / "dist")]
    done = subprocess.run(build, cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next((project / "dist").glob("*.whl"))


@pytest.fixture
def installed(world: World, wheel: Path) -> World:
    """Returns a world into whose folder pip has put the wheel."""
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet"]
    install += ["--disable-pip-version-check", "--target", str(world.folder), str(wheel)]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return world


def test_it_is_listed(installed: World) -> None:
    done = installed.dicore("list", "--dist", "dicore-hello", "--json")
    assert done.returncode == 0, done.stderr
    found = {row["qualified"]: row for row in json.loads(done.stdout)}
    assert {name: (row["kind"], row["status"]) for name, row in found.items()} == {
        "dicore-hello/countdown": ("env", "ok"),
        "dicore-hello/atlas": ("env", "unavailable"),
        "dicore-hello/cheer": ("learner_hook", "ok"),
        "dicore-hello/lost": ("polcy", "broken"),
    }
    countdown, atlas = found["dicore-hello/countdown"], found["dicore-hello/atlas"]
    assert countdown["version"] == "0.3.1"
    assert countdown["summary"] == "Count down to zero; action 1 decrements, action 0 waits."
    assert atlas["summary"] == "A map of everything."
    assert atlas["reason"] == (
        "needs a-package-that-is-not-there>=2: pip install 'dicore-hello[maps]'"
    )


def test_it_is_shown_with_its_options(installed: World) -> None:
    facts = json.loads(installed.dicore("show", "env/countdown", "--json").stdout)
    assert facts["file"] == str(installed.folder / "dicore_hello" / "__init__.py")
    options = {option["path"]: option for option in facts["options"]}
    assert options["env.start"]["default"] == 5
    assert options["env.start"]["help"] == "Where to begin."
    assert options["env.penalty"]["type"] == "float"


def test_it_is_resolved_by_name(installed: World) -> None:
    code = (
        "from dicore_registry import default\n"
        "found = default().resolve('env', 'Dicore-Hello/countdown', 'env.type')\n"
        "print(found.target(start=3).start, found.provenance['version'], found.name)"
    )
    done = installed.python(code)
    assert (done.stdout, done.stderr) == ("3 0.3.1 dicore-hello/countdown\n", "")


def test_what_it_lacks_is_said_with_its_path(installed: World) -> None:
    code = "from dicore_registry import default; default().resolve('env', 'atlas', 'env.type')"
    assert (
        installed.python(code)
        .stderr.splitlines()[-1]
        .endswith(
            "env.type: env 'atlas' (dicore-hello 0.3.1) is unavailable: "
            "needs a-package-that-is-not-there>=2: pip install 'dicore-hello[maps]'"
        )
    )
