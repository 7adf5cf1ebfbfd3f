"""A foreign world per test; what a test imported from it is forgotten after it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.registry.world import World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """Returns a world with dicore's own three distributions and an empty foreign folder."""
    world = World(tmp_path / "site", tmp_path / "house")
    world.own()
    monkeypatch.syspath_prepend(str(world.folder))
    before = set(sys.modules)
    yield world
    for name in set(sys.modules) - before:
        if str(tmp_path) in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]
