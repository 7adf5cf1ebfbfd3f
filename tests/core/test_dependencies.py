"""R12: who may import whom, read off the sources; and the core knows no component by its name."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from dicore_registry import default

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "dicore_registry": ROOT / "registry" / "dicore_registry",
    "dicore": ROOT / "dicore",
    "dicore_plugins": ROOT / "plugins" / "dicore_plugins",
    "dicore_tools": ROOT / "plugins" / "tools" / "dicore_tools",
    "dicore_contrib_envs": ROOT / "contrib_envs" / "dicore_contrib_envs",
}
FORBIDDEN = {
    "dicore_registry": {"dicore", "dicore_plugins", "dicore_tools", "dicore_contrib_envs"},
    "dicore": {"dicore_plugins", "dicore_tools", "dicore_contrib_envs", "torch", "tensorboardX"},
    "dicore_plugins": {"dicore_tools", "dicore_contrib_envs"},
    "dicore_tools": {"dicore_plugins", "dicore_contrib_envs", "torch", "tensorboardX"},
    "dicore_contrib_envs": {"dicore_plugins", "dicore_tools", "torch"},
}
KINDS = ("policy", "buffer", "env", "env_wrapper", "learner_hook", "model", "preset", "logger")


@cache
def trees(package: str) -> dict[str, ast.Module]:
    files = sorted(PACKAGES[package].rglob("*.py"))
    assert files
    return {str(file.relative_to(ROOT)): ast.parse(file.read_text("utf-8")) for file in files}


def imported(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yields the root of each module that is imported anywhere, for types too, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0], node.lineno


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_is_imported_the_other_way(package: str) -> None:
    wrong = [
        f"{file}:{line} imports {root}"
        for file, tree in trees(package).items()
        for root, line in imported(tree)
        if root in FORBIDDEN[package]
    ]
    assert wrong == []


def modules_imported(tree: ast.AST, known: set[str]) -> Iterator[str]:
    """Yields the modules of a package that are imported to run, also within functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from (whole & known) or ({node.module} & known)
        elif isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & known
        yield from modules_imported(node, known)


def test_no_modules_of_the_core_import_each_other_in_a_circle() -> None:
    """Not even late: what two need stands in a third."""
    named = {
        file.removesuffix(".py").replace("/", ".").removesuffix(".__init__"): tree
        for file, tree in trees("dicore").items()
    }
    graph = {name: set(modules_imported(tree, set(named))) - {name} for name, tree in named.items()}
    assert "dicore.run.request" in graph["dicore.run.launch"]
    order = list(TopologicalSorter(graph).static_order())  # CycleError names the circle
    assert len(order) == len(named)


def test_the_registry_needs_the_standard_library_alone() -> None:
    allowed = {*sys.stdlib_module_names, "dicore_registry"}
    found = {root for tree in trees("dicore_registry").values() for root, _ in imported(tree)}
    assert found <= allowed


@pytest.mark.parametrize("package", ["dicore_registry", "dicore"])
def test_the_core_compares_nothing_with_the_name_of_a_component(package: str) -> None:
    registry = default()
    names = {
        entry.name for kind in KINDS for entry in registry.entries(kind) if entry.dist != "dicore"
    }
    assert "dqn" in names
    wrong = [
        f"{file}:{node.lineno} {side.value!r}"
        for file, tree in trees(package).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        for side in [node.left, *node.comparators]
        if isinstance(side, ast.Constant) and side.value in names - {"gymnasium"}
    ]
    assert wrong == []
