"""Shared fixtures of the tests of dicore-tools."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dicore.run.launch import launch
from tests.core.run.conftest import toys
from tests.registry.world import World

__all__ = ["SMALL", "here", "mtimes", "toys", "world"]


SMALL = [
    "env.collector_env_num=1", "env.evaluator_env_num=1", "env.n_evaluator_episode=1",
    "policy.learn.batch_size=4", "policy.collect.n_sample=8", "pipeline.max_env_step=16",
]  # fmt: skip
"""Options of a training of one step."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a checkpoint."""
    folder = tmp_path_factory.mktemp("foreign") / "run"
    launch(env="cartpole", policy="dqn", exp_name=str(folder), overrides=SMALL)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "run")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world with the core and the tools."""
    world = World(tmp_path / "site", tmp_path / "house")
    world.own("dicore", "dicore-tools")
    return world


def mtimes(folder: Path) -> dict[Path, int]:
    """Returns when each file of a folder was changed."""
    return {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]}
