"""R12: which package and part imports which, read off the sources."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder

from dicore_registry import default

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "dicore_registry": ROOT / "registry" / "dicore_registry",
    "dicore": ROOT / "dicore",
    "dicore_plugins": ROOT / "plugins" / "dicore_plugins",
    "dicore_tools": ROOT / "plugins" / "tools" / "dicore_tools",
    "dicore_dist": ROOT / "plugins" / "dist" / "dicore_dist",
    "dicore_compat": ROOT / "plugins" / "compat" / "dicore_compat",
    "dicore_agents": ROOT / "plugins" / "agents" / "dicore_agents",
    "dicore_worlds": ROOT / "plugins" / "worlds" / "dicore_worlds",
    "dicore_contrib": ROOT / "plugins" / "contrib" / "dicore_contrib",
    "dicore_contrib_envs": ROOT / "contrib_envs" / "dicore_contrib_envs",
}
PLAIN_WORDS = {"gymnasium", "sequence", "episode"}
"""Names of components that the core compares with as words of YAML and of sample lengths."""
ALLOWED = {
    "dicore_registry": set(),
    "dicore": {"dicore_registry"},
    "dicore_plugins": {"dicore", "dicore_registry", "torch", "tensorboardX"},
    "dicore_tools": {"dicore", "dicore_registry"},
    "dicore_dist": {"dicore", "dicore_registry", "dicore_plugins", "torch"},
    "dicore_compat": {
        *("dicore", "dicore_registry", "dicore_plugins", "dicore_dist", "dicore_tools", "torch"),
    },
    "dicore_agents": {"dicore", "dicore_registry", "dicore_plugins", "torch"},
    "dicore_worlds": {"dicore", "dicore_registry", "dicore_plugins", "torch"},
    "dicore_contrib": {"dicore", "dicore_registry", "dicore_plugins", "torch"},
    "dicore_contrib_envs": {"dicore", "dicore_registry"},
}
BESIDE = {"atari_vector.py", "atari_vector_config.py", "atari_vector_options.py"}
"""Files of dicore-contrib-envs that extend dicore-plugins, which their extra asks for."""
TOGETHER = "plugins/tools/dicore_tools/together"
"""Folder of dicore-tools that updates networks of dicore-plugins, which its extra asks for."""
WATCHED = {*PACKAGES, "torch", "tensorboardX"}
IMPORTERS = {
    "registry/dicore_registry/importing.py": "after a check, and what packages declare",
    "dicore/run/__init__.py": "its own modules",
    "plugins/dicore_plugins/lazy.py": "its own modules",
    "plugins/dicore_plugins/former.py": "its own modules",
    "plugins/dicore_plugins/buffers/priority_tree.py": "its own modules",
    "plugins/dicore_plugins/env_wrappers/gym_adapter.py": "modules of gym, by a constant",
    "plugins/dist/dicore_dist/commands/command.py": "a file that a person named",
    "plugins/compat/dicore_compat/comm/ditask.py": "a function that a person named",
    "plugins/tools/dicore_tools/import_probe.py": "what packages declare",
    "plugins/compat/dicore_compat/migrate/read_config.py": "a file that a person named, locked in",
    "plugins/tools/dicore_tools/config_formats/python_file.py": "a file that a person named",
    "contrib_envs/dicore_contrib_envs/gymnasium_ids.py": "packages of ids, by a constant",
    "plugins/agents/dicore_agents/envs/by_id.py": "packages of ids, by a constant",
}
"""Files that import what a variable names; all others ask `code_paths`."""
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
        if root in WATCHED - ALLOWED[package] - {package}
        and not (root == "dicore_plugins" and Path(file).name in BESIDE)
        and not (root in {"dicore_plugins", "torch"} and Path(file).parent == Path(TOGETHER))
    ]
    assert wrong == []


@pytest.mark.parametrize("package", ["dicore", "dicore_plugins", "dicore_tools"])
def test_what_receives_other_frameworks_is_not_named(package: str) -> None:
    """It is found by its entry points; the stubs alone say where a name has moved."""
    named = re.compile("dicore[_-]compat")
    assert [file for file in trees(package) if named.search((ROOT / file).read_text("utf-8"))] == []


def modules_imported(tree: ast.AST, known: set[str]) -> Iterator[str]:
    """Yields the modules of a package that are imported at run time, also inside functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.ImportFrom) and node.module:
            whole = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from (whole & known) or ({node.module} & known)
        elif isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & known
        yield from modules_imported(node, known)


@cache
def imports(package: str) -> dict[str, set[str]]:
    """The modules of a package that each of its modules imports."""
    folder = PACKAGES[package].parent.relative_to(ROOT)
    named = {
        ".".join(Path(file).relative_to(folder).with_suffix("").parts).removesuffix(
            ".__init__"
        ): tree
        for file, tree in trees(package).items()
    }
    return {name: set(modules_imported(tree, set(named))) - {name} for name, tree in named.items()}


def is_built_here(module: str, other: str) -> bool:
    """A config class builds its component beside it; the component names its config class."""
    folder, _, name = module.rpartition(".")
    return (name == "config" and folder == other.rpartition(".")[0]) or module == f"{other}_config"


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_text_names_is_imported_in_few_places(package: str) -> None:
    """A saved config chooses no code: whoever imports by a variable asks `code_paths.check`."""
    names = {"import_module", "__import__", "run_path", "run_module", "spec_from_file_location"}
    calls = [
        (file, node.func, node.lineno)
        for file, tree in trees(package).items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and node.args and not isinstance(node.args[0], ast.Constant)
    ]
    wrong = [
        f"{file}:{line} {ast.unparse(called)}"
        for file, called, line in calls
        if file not in IMPORTERS
        and (getattr(called, "attr", None) or getattr(called, "id", None)) in names
        and ast.unparse(called) != "code_paths.import_module"
    ]
    assert not wrong


@pytest.mark.parametrize("package", PACKAGES)
def test_no_modules_of_a_package_import_each_other_in_a_circle(package: str) -> None:
    """Late imports count; a config class and its component are the only exception."""
    graph = {
        name: {other for other in others if not is_built_here(name, other)}
        for name, others in imports(package).items()
    }
    order = list(TopologicalSorter(graph).static_order())  # CycleError names the circle
    assert len(order) == len(graph)


LAYERS = (
    *(
        "errors",
        "deprecation",
        "console",
        "values",
        "data",
        "interfaces",
        "config",
        "hookspecs",
        "task",
    ),
    *("run", "cli", "testing"),
)
"""Parts of the core from bottom to top; a part imports itself and the parts before it."""


def test_no_part_of_the_core_imports_upwards() -> None:
    """Late imports count. What two parts need belongs to a lower one."""
    upward = set()
    for name, others in imports("dicore").items():
        for other in others - {"dicore"}:
            if name != "dicore":
                part, imported_part = (LAYERS.index(each.split(".")[1]) for each in (name, other))
                if imported_part > part:
                    upward.add(f"{name} -> {other}")
    assert upward == set()


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
        if isinstance(side, ast.Constant) and side.value in names - PLAIN_WORDS
    ]
    assert wrong == []


@pytest.mark.parametrize("package", PACKAGES)
def test_an_sdist_has_no_package_of_another_distribution(package: str) -> None:
    root = ROOT if package == "dicore_registry" else PACKAGES[package].parent
    files = [Path(file.relative_path) for file in SdistBuilder(str(root)).recurse_included_files()]
    inside = {part for file in files for part in file.parts if part in PACKAGES}
    assert inside == ({"dicore", "dicore_registry"} if root == ROOT else {package})


# ---- sizes


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Returns the lines of a function without its docstring."""
    lines = (function.end_lineno or 0) - function.lineno + 1
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        lines -= (first.end_lineno or 0) - first.lineno + 1
    return lines


def test_few_functions_of_the_plugins_are_long() -> None:
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    long = [
        f"{file}: {node.name}"
        for file, tree in trees("dicore_plugins").items()
        for node in ast.walk(tree)
        if isinstance(node, kinds) and length(node) > 40
    ]
    assert len(long) <= 15, long


def test_public_names_stand_in_the_stubs_alone() -> None:
    files = PACKAGES["dicore_plugins"].rglob("__init__.py")
    assert sum(len(file.read_text("utf-8").splitlines()) for file in files) <= 200


def lines_of(package: str) -> int:
    return sum(
        len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in trees(package)
    )


def test_the_standard_plugins_do_not_grow() -> None:
    """What a shelf of its own needs is a distribution of its own."""
    assert lines_of("dicore_plugins") <= 60_000
    assert len(trees("dicore_plugins")) <= 440


@pytest.mark.parametrize("package", ["dicore", "dicore_plugins"])
def test_signatures_say_what_flows_through_them(package: str) -> None:
    """`Any` stands at most 25 times in 1,000 lines; imports of it do not count."""
    named = sum(
        isinstance(node, ast.Name) and node.id == "Any"
        for tree in trees(package).values()
        for node in ast.walk(tree)
    )
    assert 1_000 * named <= 25 * lines_of(package), f"{named} in {lines_of(package)} lines"
