"""The command line in a process of its own, with foreign packages on its path."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

from tests.installed.wheels import OWN, build, write_foreign, write_generated
from tests.registry.environment import Environment
from tests.registry.world import World

GENERATED = (
    *("buffer", "collector", "comm_collector", "comm_learner", "command", "commander", "dataset"),
    *("env", "env_manager", "env_wrapper", "evaluator", "learner", "learner_hook"),
    *("logger", "message_queue", "middleware", "model", "model_wrapper", "optimizer", "pipeline"),
    *("policy", "preset", "reward_model", "transport", "world_model"),
)
"""Kinds that `dicore new plugin` has a template for."""


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
class Street:
    """Fresh environments with really built and really installed wheels.

    Args:
        folder: Where projects, wheels and environments are.
    """

    folder: Path

    @property
    def core(self) -> Environment:
        """Only the root distribution is installed in it."""
        return Environment(self.folder / "core")

    @property
    def all(self) -> Environment:
        """Everything is installed in it: ours, strangers', good, bad and generated."""
        return Environment(self.folder / "all")

    @property
    def generated(self) -> Path:
        """The folder of the projects that `dicore new plugin` wrote."""
        return self.folder / "generated"

    def make(self) -> None:
        """Builds and installs it all."""
        wheels = self.folder / "wheels"
        own = build("hatchling", OWN, wheels)
        self.core.install(own[:1])
        self.all.install(own)
        write_generated(self.generated, self.all, GENERATED)
        foreign = build("hatchling", write_foreign(self.folder / "foreign"), wheels)
        mine = sorted(self.generated.glob("my-*"))
        foreign += build("hatchling", mine, wheels)
        for project in sorted(self.generated.glob("by-*")):
            foreign += build(project.name.removeprefix("by-"), [project], wheels)
        self.all.install(foreign)


@pytest.fixture(scope="session")
def street(tmp_path_factory: pytest.TempPathFactory) -> Street:
    """Returns the street, built once however many processes test."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    street = Street(folder / "street")
    with FileLock(folder / "street.lock"):
        if not (street.folder / "ready").exists():
            street.make()
            (street.folder / "ready").touch()
    return street
