"""The command line in a process of its own, with foreign packages on its path."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.installed.wheels import (
    EXAMPLES,
    OWN,
    SCHOOLS,
    TABULAR,
    build,
    write_foreign,
    write_generated,
)
from tests.registry.environment import Environment
from tests.registry.world import World

GENERATED = (
    *("buffer", "buffer_middleware", "collector", "comm_collector", "comm_learner", "command"),
    *("commander", "dataset", "diagnosis_rule", "executor"),
    *("env", "env_manager", "env_transport", "env_wrapper", "evaluator", "league_player"),
    *("learner", "learner_hook"),
    *("logger", "message_queue", "middleware", "model", "model_wrapper", "optimizer", "pipeline"),
    *("planner", "policy", "preset", "reward_model", "sampler", "transport", "world_model"),
)
"""Kinds that `dicore new plugin` has a template for."""

collect_ignore = ["schools", "tabular-rl"]
"""Projects with tests that run in their own environments."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Returns a world with dicore's own three distributions and an empty foreign folder."""
    world = World(tmp_path / "site", tmp_path / "house")
    world.own()
    return world


@pytest.fixture
def bare(tmp_path: Path) -> World:
    """Returns a world in which only the root distribution is installed."""
    world = World(tmp_path / "bare_site", tmp_path / "bare_house")
    world.own("dicore")
    return world


@dataclass(frozen=True)
class InstalledWheels:
    """New environments with wheels that were built and installed.

    Args:
        folder: Holds the projects, wheels and environments.
    """

    folder: Path

    @property
    def core(self) -> Environment:
        """Has the core and what it requires, nothing else; no torch."""
        return Environment(self.folder / "core", OWN[:1])

    @property
    def tabular(self) -> Environment:
        """Has the core, what it requires, and the foreign `tabular-rl`; no torch."""
        return Environment(self.folder / "tabular", OWN[:1])

    @property
    def schools(self) -> Environment:
        """Has everything that is ours, and the foreign `schools-rl`."""
        return Environment(self.folder / "schools")

    @property
    def tools(self) -> Environment:
        """Has the core, the tools, what they require, and a generated env package; no torch."""
        return Environment(self.folder / "tools", [OWN[0], OWN[2]])

    @property
    def all(self) -> Environment:
        """Has everything: first-party, foreign (working and broken) and generated packages."""
        return Environment(self.folder / "all")

    @property
    def generated(self) -> Path:
        """The folder of the projects that `dicore new plugin` wrote."""
        return self.folder / "generated"

    def make(self) -> None:
        """Builds and installs all wheels."""
        wheels = self.folder / "wheels"
        projects = [*OWN, TABULAR, SCHOOLS, *EXAMPLES]
        *own, tabular, schools = build("hatchling", projects, wheels)[: -len(EXAMPLES)]
        self.core.install(own[:1])
        self.tabular.install([own[0], tabular])
        self.schools.install([*own, schools])
        self.all.install(own)
        write_generated(self.generated, self.all, GENERATED)
        foreign = build("hatchling", write_foreign(self.folder / "foreign"), wheels)
        mine = build("hatchling", sorted(self.generated.glob("my-*")), wheels)
        self.tools.install([own[0], own[2], *(w for w in mine if w.name.startswith("my_env-"))])
        for project in sorted(self.generated.glob("by-*")):
            foreign += build(project.name.removeprefix("by-"), [project], wheels)
        self.all.install(foreign + mine)


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> InstalledWheels:
    """Returns the environments, made once for all test processes."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    wheels = InstalledWheels(folder / "installed")
    with FileLock(folder / "installed.lock"):
        if not (wheels.folder / "ready").exists():
            wheels.make()
            (wheels.folder / "ready").touch()
    return wheels


@dataclass(frozen=True)
class Shell:
    """Runs an environment's programs in a folder."""

    environment: Environment
    folder: Path

    def run(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.environment.run(*words, cwd=self.folder, **more)

    def dicore(self, *words: str, **more: Any) -> subprocess.CompletedProcess[str]:
        return self.environment.dicore(*words, cwd=self.folder, **more)


@pytest.fixture
def core(installed: InstalledWheels, tmp_path: Path) -> Shell:
    return Shell(installed.core, tmp_path)


@pytest.fixture
def tabular(installed: InstalledWheels, tmp_path: Path) -> Shell:
    return Shell(installed.tabular, tmp_path)


@pytest.fixture
def tools(installed: InstalledWheels, tmp_path: Path) -> Shell:
    return Shell(installed.tools, tmp_path)


@pytest.fixture
def everything(installed: InstalledWheels, tmp_path: Path) -> Shell:
    return Shell(installed.all, tmp_path)
