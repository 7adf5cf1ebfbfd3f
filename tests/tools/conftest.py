"""Shared fixtures of the tests of dicore-tools."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dicore.run.launch import launch
from tests.core.run.conftest import toys
from tests.registry.world import World

__all__ = ["PATHS", "SMALL", "Plant", "here", "mtimes", "plants", "sprung", "toys", "world"]


SMALL = [
    "env.collector_env_num=1", "env.evaluator_env_num=1", "env.n_evaluator_episode=1",
    "policy.learn.batch_size=4", "policy.collect.n_sample=8", "pipeline.max_env_step=16",
]  # fmt: skip
"""Options of a training of one step."""

PATHS = (
    "trap_package.trap:Trap",
    "./trap_file.py:Trap",
    "trap_package.trap:Trap-v0",
    "trap_package.trap",
    "trap_file",
    "gymnasium:trap_file:Trap-v0",
    "trap_file:Trap",
    "trap_file:Trap-v0",
    "pettingzoo:trap_file",
)
CODE = """import sys
sys.sprung.append(__name__)
def Trap(*args, **kwargs): sys.sprung.append('Trap')
"""

Plant = tuple[tuple[Any, ...], Any]
"""A place in a tree, and what a stranger writes there."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def sprung(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns what was imported or called of the traps in the working directory."""
    (tmp_path / "trap_package").mkdir()
    (tmp_path / "trap_package" / "__init__.py").touch()
    for name in ("trap_package/trap.py", "trap_file.py"):
        (tmp_path / name).write_text(CODE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "sprung", [], raising=False)
    for name in ("trap_package", "trap_package.trap", "trap_file"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return sys.sprung  # type: ignore[attr-defined, no-any-return]


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


def plants(node: Any, at: tuple[Any, ...] = ()) -> Iterator[Plant]:
    """Yields all places of a config with what a stranger writes there."""
    for path in PATHS:
        for value in (path, [path], {path: {}}, {"type": path}, {"type": path, "ext_args": {}}):
            yield at, value
        if isinstance(node, Mapping):
            yield at, {**node, path: {}}
            yield at, {**node, "import_names": [path]}
            for key in node:
                yield at, {path if each == key else each: node[each] for each in node}
        elif isinstance(node, list):
            yield from ((at, [*node, value]) for value in (path, {"type": path}))
    below = node.items() if isinstance(node, Mapping) else enumerate(node) if _is_list(node) else ()
    for key, item in below:
        yield from plants(item, (*at, key))


def _is_list(node: Any) -> bool:
    return isinstance(node, list)
