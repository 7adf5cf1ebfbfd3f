"""Shared fixtures of the tests of dicore-tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.run.conftest import toys
from tests.registry.world import World

__all__ = ["here", "mtimes", "toys", "world"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A world with the core and the tools."""
    world = World(tmp_path / "site", tmp_path / "house")
    world.own("dicore", "dicore-tools")
    return world


def mtimes(folder: Path) -> dict[Path, int]:
    """Returns when each file of a folder was changed."""
    return {path: path.stat().st_mtime_ns for path in [folder, *folder.rglob("*")]}
