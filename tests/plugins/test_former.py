"""Modules that moved are found by the dotted paths that they had."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module, util
from unittest import mock

import pytest

from dicore.deprecation import DicoreDeprecationWarning
from dicore_plugins.former import FOLDERS, MODULES, former_path

ROOT = "dicore_plugins"
PATHS = [
    *MODULES,
    *(
        f"{folder}.{module}"
        for folder, place in FOLDERS.items()
        for module in ("config", folder.partition(".")[0].replace("ies", "y").removesuffix("s"))
        if util.find_spec(f"{ROOT}.{place}" + ("_config" if module == "config" else ""))
    ),
]


def test_the_table_is_whole() -> None:
    assert len(PATHS) == 112
    assert "policies.dqn.policy" in PATHS
    assert "models.vac.config" in PATHS


@pytest.mark.parametrize("path", PATHS)
def test_a_former_path_warns_and_leads_to_the_module_in_its_place(path: str) -> None:
    former, place = f"{ROOT}.{path}", former_path(path)
    assert place is not None
    sys.modules.pop(former, None)
    with pytest.warns(DicoreDeprecationWarning, match=rf"{former} is deprecated .* use {place}$"):
        found = import_module(former)
    assert found is import_module(place)
    assert found.__spec__ is not None
    assert found.__spec__.name == found.__name__ == place


def test_the_warning_names_the_line_of_the_import() -> None:
    program = "from dicore_plugins.policies.dqn.config import DQNConfig\nDQNConfig()"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], check=False, capture_output=True, text=True
    )
    assert 'File "<string>", line 1' in run.stderr
    assert "dicore_plugins.policies.value.dqn_config" in run.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "ask",
    [import_module, pkgutil.resolve_name, lambda path: mock.patch(f"{path}.DQNConfig").start()],
)
def test_a_tool_that_imports_is_not_the_caller(ask: Callable[[str], object]) -> None:
    old = f"{ROOT}.policies.dqn.config"
    sys.modules.pop(old, None)
    with pytest.warns(DicoreDeprecationWarning) as told:
        ask(old)
    mock.patch.stopall()
    assert {each.filename for each in told} == {__file__}


def test_other_paths_are_unknown() -> None:
    for path in ("policies.no_such", "policies.dqn.no_such", "policies.value.no_such"):
        with pytest.raises(ModuleNotFoundError, match=rf"{ROOT}\.{path}"):
            import_module(f"{ROOT}.{path}")
