"""The command line in a process of its own, with foreign packages on its path."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.registry.world import World


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
