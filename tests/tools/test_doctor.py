"""`dicore doctor`: what it finds in a foreign world, and how it ends."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from dicore.cli import main
from tests.registry.world import World


def findings(world: World, *words: str, code: int, **environ: str) -> list[dict[str, Any]]:
    done = world.dicore("doctor", "--json", *words, **environ)
    assert done.returncode == code, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


def test_a_sound_world(world: World) -> None:
    done = world.dicore("doctor")
    assert done.returncode == 0
    assert done.stdout.endswith("components of 2 packages: no errors, no warnings\n")


def test_strict_counts_warnings(world: World) -> None:
    world.add("free-rl", {"dicore.policy": {"free": "free:Free"}}, requires=[])
    (found,) = findings(world, code=0)
    assert (found["level"], found["about"], found["check"]) == ("warning", "free-rl", "host-range")
    assert findings(world, "--strict", code=1) == [found]
    text = world.dicore("doctor").stdout.splitlines()
    assert text[:2] == [
        "warning: free-rl: does not declare which versions of dicore it supports",
        '  hint: add a range to its dependencies: "dicore>=0.1,<0.2"',
    ]


@pytest.mark.parametrize("wanted", ["dicore", "numpy"])
@pytest.mark.parametrize("kind", ["policy", "plugin"])
def test_a_package_without_a_range(world: World, kind: str, wanted: str) -> None:
    world.add("free-rl", {f"dicore.{kind}": {"free": "free:Free"}}, requires=[wanted])
    found = findings(world, code=0 if kind == "policy" else 1)
    assert [each["about"] for each in found if each["check"] == "host-range"] == ["free-rl"]


def test_a_constant_is_an_error(world: World) -> None:
    modules = {"con_rl.py": "PLAIN = 3\nMADE = int('3')\nclass C: ...\nOBJECT = C()\n"}
    targets = {name.lower(): f"con_rl:{name}" for name in ("PLAIN", "MADE", "OBJECT", "C")}
    world.add("con-rl", {"dicore.policy": targets, "dicore.api": targets}, modules=modules)
    texts = [f"{e['about']}: {e['text']}" for e in findings(world, "--import", code=1)]
    reason = "leads to con_rl:{} of type {}, not to a class or function"
    assert texts == [
        "policy/made (con-rl 1.0): " + reason.format("MADE", "int"),
        "policy/object (con-rl 1.0): " + reason.format("OBJECT", "C"),
        "policy/plain (con-rl 1.0): broken: con_rl:PLAIN is of type int, not a class or function",
        "policy/plain (con-rl 1.0): " + reason.format("PLAIN", "int"),
    ]


def test_a_switch_that_names_nothing(world: World) -> None:
    world.add("acme-rl", {"dicore.policy": {"sac": "acme_rl:SAC"}})
    switches = {
        "DICORE_PLUGINS_DENY": "acme-r1,policy/sac,acme-rl/sac",
        "DICORE_PLUGINS_ALLOW": "acme-rl,gymnasium",
    }
    (found,) = findings(world, code=0, **switches)
    assert found["about"] == "DICORE_PLUGINS_DENY"
    assert found["text"] == "'acme-r1' matches nothing installed"
    assert found["hint"] == "did you mean 'acme-rl'?"


def test_a_misspelt_group_is_an_error(world: World) -> None:
    world.add("acme-rl", {"dicore.polcy": {"ppo": "acme_rl:PPO"}})
    done = world.dicore("doctor")
    assert done.returncode == 1
    assert done.stdout.startswith(
        "error: polcy/ppo (acme-rl 1.0): broken: unknown kind 'dicore.polcy'; "
        "did you mean 'dicore.policy'?\n"
    )


def editable(world: World, declared: str, **groups: dict[str, str]) -> Path:
    """Installs a package as editable, its project saying something else by now."""
    project = world.folder.parent / "ed"
    project.mkdir()
    (project / "pyproject.toml").write_text(declared)
    info = world.add("ed-rl", {f"dicore.{kind}": names for kind, names in groups.items()})
    facts = {"url": project.as_uri(), "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(facts))
    return project


def test_an_editable_package_whose_metadata_is_stale(world: World) -> None:
    text = '[project.entry-points."dicore.policy"]\nsame = "ed:Same"\nadded = "ed:Added"\n'
    project = editable(world, text, policy={"same": "ed:Same", "gone": "ed:Gone"})
    found = findings(world, code=1)
    assert [(each["about"], each["text"]) for each in found] == [
        ("ed-rl", "dicore.policy: added is declared in its pyproject.toml, but not installed"),
        ("ed-rl", "dicore.policy: gone is installed, but no longer declared in its pyproject.toml"),
    ]
    assert {each["hint"] for each in found} == {f"reinstall it: pip install -e {project}"}


@pytest.mark.parametrize(
    "text",
    [
        '[project.entry-points."dicore.policy"]\nsame = "ed:Same"\n',
        '[tool.poetry.plugins."dicore.policy"]\nsame = "ed:Same"\n',
    ],
)
def test_an_editable_package_that_is_up_to_date(world: World, text: str) -> None:
    editable(world, text, policy={"same": "ed:Same"})
    assert findings(world, code=0) == []


def test_a_package_that_is_there_twice(world: World) -> None:
    world.add("acme-rl", {"dicore.policy": {"a": "acme:A"}}, version="2.0")
    older = World(world.folder.parent / "older", world.folder.parent / "none")
    older.add("acme-rl", {"dicore.policy": {"a": "acme:A"}}, version="1.0")
    path = world.environ()["PYTHONPATH"] + f":{older.folder}"
    (found,) = findings(world, code=0, PYTHONPATH=path)
    assert found["check"] == "twice"
    assert found["text"].startswith("is on the path 2 times, the first is used: 2.0 in ")


def test_what_the_project_says_wrongly(world: World) -> None:
    text = '[tool.dicore]\nplugin = []\n[tool.dicore.prefer]\n"policy/sac" = "acme-rl"\n'
    (world.folder / "pyproject.toml").write_text(text)
    found = findings(world, code=1)
    assert [(each["check"], each["text"].partition("pyproject.toml: ")[2]) for each in found] == [
        ("project", "tool.dicore: unknown key 'plugin'; did you mean 'plugins'?"),
        ("prefer", ""),
    ]


def test_imports_tell_what_breaks_and_what_is_heavy(world: World) -> None:
    config = (
        "{head}\nfrom dicore.config import ComponentConfig, frozen\n\n\n@frozen(kw_only=True)\n"
        "class C(ComponentConfig):\n    '''A config class.'''\n"
    )
    modules = {
        "heavy.py": config.format(head="import torch"),
        "slow.py": config.format(head="import time; time.sleep(0.3); print('hello')"),
        "plain.py": "import torch\n\n\nclass C:\n    '''Registered itself.'''\n",
        "broken.py": "raise OSError('no')",
        "ending.py": "import os; os._exit(3)",
        "light.py": config.format(head=""),
        "torch/__init__.py": "",
    }
    groups = {"dicore.buffer": {name[:-3]: f"{name[:-3]}:C" for name in modules if "/" not in name}}
    world.add("acme-rl", groups, modules=modules)
    found = findings(world, "--import", code=1)
    told = {each["about"].partition(" ")[0]: (each["check"], each["text"]) for each in found}
    assert told["buffer/slow"][0] == "slow"
    others = {name: found for name, found in told.items() if found[0] != "slow"}  # if it is busy
    assert others == {
        "buffer/broken": ("import", "failed to import broken: OSError: no"),
        "buffer/ending": (
            "import",
            "failed to import ending: its import ended the process with 3",
        ),
        "buffer/heavy": (
            "torch",
            f"its config class imports torch ({world.folder / 'heavy.py'}:1)",
        ),
    }


def test_it_says_which_packages_provide_environments_by_id(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["doctor"])
    line = next(line for line in capsys.readouterr().out.splitlines() if "by id: " in line)
    assert f"gymnasium:ID from gymnasium {gymnasium.__version__}" in line
    gym = find_spec("gym") is not None
    assert ("gym:ID from gym 0.26" in line) == gym
