"""Public names of dicore that packages add by entry points of group `dicore.api`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import dicore
from dicore_registry import Registry, using
from dicore_registry.errors import MissingPackageError, PluginConflictError, PluginLoadError
from dicore_tools.commands.doctor import examine
from tests.registry.world import World

TUNER = {"acme_rl.py": "class Tuner:\n    pass\n"}


@pytest.fixture
def world(world: World) -> Iterator[World]:
    """Returns a world in which acme-rl adds the name `Tuner`."""
    world.add("acme-rl", {"dicore.api": {"tuner": "acme_rl:Tuner"}}, modules=TUNER)
    with using(world.registry()):
        yield world


def failure(registry: Registry, name: str) -> Exception:
    """Returns the error of accessing a public name."""
    with using(registry), pytest.raises(Exception) as caught:  # noqa: PT011 - the test checks it
        getattr(dicore, name)
    return caught.value


def wrong(registry: Registry, *, imports: bool = False) -> list[tuple[str, str, str]]:
    """Returns what `dicore doctor` finds in the packages of this file."""
    with using(registry):
        found = examine(registry, imports=imports)
    return [(each.level, each.about, each.text) for each in found if "-rl" in each.about]


def test_a_name_is_imported_on_first_use(world: World) -> None:
    from dicore import Tuner  # type: ignore[attr-defined]

    assert Tuner.__module__ == "acme_rl"
    assert {"Tuner", "Agent", "register", "__version__"} <= set(dir(dicore))
    assert not hasattr(dicore, "tuner")
    assert wrong(world.registry()) == []


@pytest.mark.parametrize("name", ["Tunr", "tuner", "agent", "_private", "__wrapped__"])
def test_an_unknown_name(world: World, name: str) -> None:
    error = failure(world.registry(), name)
    assert type(error) is AttributeError
    assert str(error) == f"module 'dicore' has no attribute '{name}'"
    with pytest.raises(ImportError, match=f"cannot import name '{name}' from 'dicore'"):
        exec(f"from dicore import {name}")


@pytest.mark.parametrize(
    ("name", "dist"), [("Agent", "dicore-tools"), ("profiled", "dicore-plugins")]
)
def test_a_name_of_a_package_that_is_not_installed(
    tmp_path_factory: pytest.TempPathFactory, name: str, dist: str
) -> None:
    folder = tmp_path_factory.mktemp("bare")
    world = World(folder / "site", folder / "house")
    world.own("dicore")
    text = f"'{name}' comes with {dist}: pip install {dist}"
    error = failure(world.registry(), name)
    assert (type(error), str(error)) == (AttributeError, text)
    with using(world.registry()), pytest.raises(MissingPackageError) as caught:
        exec(f"import dicore.errors\nfrom dicore import {name} as it")
    assert isinstance(caught.value, ImportError)
    assert (str(caught.value), caught.value.exit_code) == (text, 2)


def test_a_name_of_two_packages(world: World) -> None:
    world.add("other-rl", {"dicore.api": {"tuner": "other_rl.tune:Tuner"}})
    error = failure(world.registry(), "Tuner")
    assert isinstance(error, PluginConflictError)
    assert str(error) == (
        "api 'tuner' is provided by 2 packages; write one of: "
        "'from acme_rl import Tuner', 'from other_rl.tune import Tuner'"
    )
    text = "conflict: also provided by {}; write '{}/tuner'"
    assert wrong(world.registry()) == [
        ("error", "api/tuner (acme-rl 1.0)", text.format("other-rl", "acme-rl")),
        ("error", "api/tuner (other-rl 1.0)", text.format("acme-rl", "other-rl")),
    ]


def test_first_party_names_have_priority(world: World) -> None:
    world.add("other-rl", {"dicore.api": {"agent": "other_rl:Agent"}})
    with using(world.registry()):
        assert dicore.Agent.__module__.startswith("dicore_tools")


@pytest.mark.parametrize(
    ("target", "modules", "found"),
    [
        ("bad_rl", {}, "broken: target 'bad_rl' is not 'module:attr'"),
        ("bad_rl:Bad", {}, "ModuleNotFoundError: No module named 'bad_rl'"),
        ("bad_rl:Bad", {"bad_rl.py": "raise OSError('libfoo')\n"}, "OSError: libfoo"),
    ],
)
def test_a_broken_name(world: World, target: str, modules: Any, found: str) -> None:
    world.add("bad-rl", {"dicore.api": {"bad": target}}, modules=modules)
    registry = world.registry()
    assert isinstance(failure(registry, "Bad" if ":" in target else "bad"), PluginLoadError)
    few = [d for d in world.distributions() if d.metadata["Name"] in ("dicore", "bad-rl")]
    (error,) = wrong(Registry(few, environ={}), imports=True)
    assert error[:2] == ("error", "api/bad (bad-rl 1.0)")
    assert error[2].endswith(found)
