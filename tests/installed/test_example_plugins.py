"""The packages of examples/plugins: each alone beside dicore's wheels, and all of them indexed."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.installed.conftest import InstalledWheels, Shell
from tests.installed.wheels import EXAMPLES
from tests.registry.environment import Environment
from tests.soak import SOAK

pytestmark = pytest.mark.installed

NAMES = [project.name for project in EXAMPLES]
TIERS = {
    "combined-replay": 3,
    "mellow-dqn": 3,
    "postbox-rl": 2,
    "rooms-rl": 3,
    "standings-rl": 2,
}
"""Suites pass (2), and a result that was resumed and repeated bit for bit (3)."""
LONG = ("combined-replay", "mellow-dqn")
"""Suites that take long; a soak runs them."""


def project_of(name: str) -> dict[str, Any]:
    [folder] = (each for each in EXAMPLES if each.name == name)
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return project


def wheel_of(installed: InstalledWheels, name: str) -> Path:
    [wheel] = (installed.folder / "wheels").glob(f"{name.replace('-', '_')}-*.whl")
    return wheel


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def alone(installed: InstalledWheels, name: str, tmp_path: Path) -> Shell:
    """Has the package, the core, and dicore-plugins if the package or an extra of it needs them."""
    folder = installed.folder / "examples" / name
    with FileLock(installed.folder / f"{name}.lock"):
        if not folder.exists():
            project = project_of(name)
            needs = [project["dependencies"], *project["optional-dependencies"].values()]
            own = ["dicore-plugins"] if "dicore-plugins" in str(needs) else []
            wheels = [wheel_of(installed, each) for each in ("dicore", *own, name)]
            Environment(folder).install(wheels)
    return Shell(Environment(folder), tmp_path)


def test_its_own_tests_pass(alone: Shell, name: str) -> None:
    [folder] = (each / "tests" for each in EXAMPLES if each.name == name)
    words = ["-q", "-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".", str(folder)]
    if name in LONG and not SOAK:
        words += ["-k", "not test_contract or loads"]
    done = alone.run("-m", "pytest", *words, timeout=500)
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.fixture(scope="module")
def index(
    installed: InstalledWheels, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Any]:
    """The index of all of them, by name."""
    folder = tmp_path_factory.mktemp("index")
    wheels = [str(wheel_of(installed, each)) for each in NAMES]
    done = installed.all.dicore("index", *wheels, "-o", "site", cwd=folder)
    assert done.returncode == 0, done.stderr
    packages = json.loads((folder / "site/index.json").read_text())["packages"]
    return {each["name"]: each for each in packages}


def test_the_index_gives_each_its_tier(index: Mapping[str, Any], name: str) -> None:
    package = index[name]
    assert (package["problems"], package["notes"]) == ([], []), "run release/badges.py"
    assert package["tier"] == TIERS[name]


@pytest.mark.parametrize("name", [name for name, tier in TIERS.items() if tier == 3])
def test_the_readme_states_the_result_that_was_verified(
    index: Mapping[str, Any], name: str
) -> None:
    run = index[name]["badge"]["verified"]
    [text] = (each / "README.md" for each in EXAMPLES if each.name == name)
    result = f"{run['best_return']:.2f} after {run['env_step']:,} env steps, seed {run['seed']}"
    assert result in " ".join(text.read_text().split())
