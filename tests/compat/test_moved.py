"""The old places of what has moved to another package: they work, warn, and say what is missing."""

from __future__ import annotations

import ast
import sys
from importlib import import_module
from pathlib import Path

import pytest

import dicore_plugins
from dicore.config import compile_config
from dicore.deprecation import DicoreDeprecationWarning
from dicore.errors import MissingPackageError
from dicore_compat.agents import TeamConfig
from tests.compat.agents.test_agent import PAIR

MOVED = sorted(
    (f"dicore_plugins.{stub.parent.name}", name.name, str(node.module))
    for stub in Path(dicore_plugins.__path__[0]).glob("*/__init__.pyi")
    for node in ast.walk(ast.parse(stub.read_text(encoding="utf-8")))
    if isinstance(node, ast.ImportFrom) and not str(node.module).startswith("dicore_plugins.")
    for name in node.names
)


@pytest.mark.parametrize(("old", "name", "home"), MOVED)
def test_an_old_place_leads_to_the_new_one(old: str, name: str, home: str) -> None:
    with pytest.warns(DicoreDeprecationWarning, match=f"{old}.{name} is deprecated") as told:
        found = getattr(import_module(old), name)
    assert found is getattr(import_module(home), name)
    assert {each.filename for each in told} == {__file__}
    assert name not in dir(import_module(old))


PATHS = [
    *(f"functional.{name}" for name in ("collate", "conversions", "preprocess")),
    *("agents.config", "samplers.units", "middleware.estimators", "buffers.deque.buffer"),
    *("collectors.battle.config", "evaluators.battle.evaluator"),
]


@pytest.mark.parametrize("path", PATHS)
def test_a_module_that_moved_is_found_by_its_old_path(path: str) -> None:
    old = f"dicore_plugins.{path}"
    sys.modules.pop(old, None)
    with pytest.warns(
        DicoreDeprecationWarning, match=f"{old} is deprecated .* dicore_compat"
    ) as told:
        found = import_module(old)
    assert found.__name__ == f"dicore_compat.{path.removeprefix('buffers.')}"
    assert {each.filename for each in told} == {__file__}


def test_a_module_that_never_was_is_unknown() -> None:
    for path in ("functional.no_such", "functional.functional", "buffers.deque.no_such"):
        with pytest.raises(ModuleNotFoundError, match=path):
            import_module(f"dicore_plugins.{path}")


class Absent:
    """Finds no dicore-compat."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "dicore_compat":
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)


def test_without_the_package_an_old_place_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [*sys.modules]:
        if module.partition(".")[0] == "dicore_compat" or module.endswith("functional.collate"):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.setattr(sys, "meta_path", [Absent, *sys.meta_path])
    text = "'AgentBase' comes with dicore-compat: pip install dicore-compat"
    with pytest.raises(MissingPackageError, match=text):
        from dicore_plugins.agents import AgentBase  # noqa: F401
    with (
        pytest.warns(DicoreDeprecationWarning),
        pytest.raises(MissingPackageError, match=r"functional\.collate' comes with dicore-compat"),
    ):
        import_module("dicore_plugins.functional.collate")
    agents = import_module("dicore_plugins.agents")
    assert not hasattr(agents, "AgentBase")
    with pytest.raises(AttributeError, match=text):
        _ = agents.AgentBase


def test_a_config_may_name_an_old_place() -> None:
    with pytest.warns(DicoreDeprecationWarning, match=r"use dicore_compat\.agents"):
        compiled = compile_config(
            {
                "env": "cartpole",
                "policy": {"type": "dicore_plugins.agents:TeamConfig", "members": PAIR["members"]},
            }
        )
    assert type(compiled.policy) is TeamConfig
