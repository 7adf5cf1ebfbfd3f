"""The decorator: components of this process."""

from __future__ import annotations

import inspect
import sys
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from dicore_registry import LOCAL, Registry, default, register, using
from dicore_registry.errors import PluginConflictError, RegistryError, UnknownComponentError
from tests.registry.world import World


@pytest.fixture
def registry(world: World) -> Registry:
    return world.registry()


class Mine:
    """A policy of my own.

    More about it.
    """


def test_a_registered_class_is_found(registry: Registry) -> None:
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    assert registry.register("policy", "my-dqn")(Mine) is Mine
    resolved = registry.resolve("policy", "my_dqn")
    assert (resolved.name, resolved.target) == ("my_dqn", Mine)
    entry = resolved.entry
    assert entry is not None
    assert (entry.dist, entry.qualified, entry.version) == (LOCAL, "local/my_dqn", "")
    assert entry.target == f"{__name__}:Mine"
    assert entry.provider == f"local, {__file__}:{line}"
    assert registry.summary(entry) == "A policy of my own."
    assert registry.find("policy", "local/my_dqn") == entry
    assert resolved.provenance["dist"] == LOCAL
    assert resolved.provenance["source"].startswith("sha256:")


def test_the_source_is_the_file_that_defines_it(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "harvest_of_a_test.py"
    file.write_text("class Harvest:\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    registry.register("policy", "harvest")(import_module("harvest_of_a_test").Harvest)
    found = registry.provenance(registry.find("policy", "harvest"))
    assert found["source"] == f"sha256:{sha256(file.read_bytes()).hexdigest()}"
    monkeypatch.delitem(sys.modules, "harvest_of_a_test")


def test_it_is_listed(registry: Registry) -> None:
    registry.register("policy", "mine")(Mine)
    assert "mine" in [entry.name for entry in registry.entries("policy")]
    assert "mine" in [entry.name for entry in registry.entries() if entry.kind == "policy"]


def test_the_same_object_twice_is_quiet(registry: Registry) -> None:
    registry.register("policy", "mine")(Mine)
    assert registry.register("policy", "mine")(Mine) is Mine


def test_a_cell_run_again_takes_the_place_of_itself(registry: Registry) -> None:
    def run_cell() -> type:
        space: dict[str, Any] = {"__name__": "__main__"}
        exec("class Cell:\n    'One cell.'", space)
        cell: type = space["Cell"]
        return registry.register("policy", "cell")(cell)

    run_cell()
    second = run_cell()
    assert registry.resolve("policy", "cell").target is second


def test_two_local_objects_of_one_name_are_an_error_naming_both(registry: Registry) -> None:
    class First: ...

    class Second: ...

    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    registry.register("policy", "mine")(First)
    with pytest.raises(PluginConflictError) as caught:
        registry.register("policy", "mine")(Second)
    assert str(caught.value) == (
        f"policy 'mine' ({__file__}:{line + 2}) is already registered: {__file__}:{line}\n"
        "  hint: pass override=True to replace it"
    )
    assert registry.resolve("policy", "mine").target is First


def test_what_a_factory_makes_is_not_the_same_object(registry: Registry) -> None:
    def make() -> type:
        class Made: ...

        return Made

    registry.register("policy", "mine")(make())
    with pytest.raises(PluginConflictError):
        registry.register("policy", "mine")(make())


def test_an_installed_name_is_an_error_naming_both_files(registry: Registry, world: World) -> None:
    text = "# first line\nclass TEDQ: ..."
    world.add("acme-rl", {"dicore.policy": {"tedq": "acme_rl:TEDQ"}}, modules={"acme_rl.py": text})
    registry.rescan()
    registry = world.registry()
    line = inspect.currentframe().f_lineno + 2  # type: ignore[union-attr]
    with pytest.raises(PluginConflictError) as caught:
        registry.register("policy", "tedq")(Mine)
    assert caught.value.message == (
        f"policy 'tedq' ({__file__}:{line}) is already registered: "
        f"{world.folder}/acme_rl.py:2 (acme-rl 1.0)"
    )


def test_the_decorator_may_say_what_an_entry_point_says(registry: Registry, world: World) -> None:
    """A single file moves into a package as it is."""
    groups = {"dicore.policy": {"mine": f"{__name__}:Mine", "other": "acme_rl:Other"}}
    world.add("acme-rl", groups)
    registry = world.registry()
    assert registry.register("policy", "mine")(Mine) is Mine
    assert [entry.dist for entry in registry.entries("policy") if entry.name == "mine"] == [
        "acme-rl"
    ]
    with pytest.raises(PluginConflictError):
        registry.register("policy", "other")(Mine)


def test_override_takes_the_bare_name_only(registry: Registry) -> None:
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    registry.register("policy", "dqn", override=True)(Mine)
    assert registry.resolve("policy", "dqn").target is Mine
    shadowed = registry.find("policy", "dicore-plugins/dqn")
    assert (shadowed.dist, shadowed.status) == ("dicore-plugins", "shadowed")
    assert shadowed.reason == f"overridden at {__file__}:{line}"


def test_functions_and_dicts_may_be_registered(registry: Registry) -> None:
    registry.register("preset", "mine")({"env": "cartpole"})
    entry = registry.find("preset", "mine")
    assert registry.load(entry) == {"env": "cartpole"}
    assert registry.summary(entry) == ""


def test_an_unknown_kind(registry: Registry) -> None:
    with pytest.raises(
        UnknownComponentError, match=r"unknown kind 'polcy'; did you mean 'policy'\?"
    ):
        registry.register("polcy", "mine")


def test_a_bad_name(registry: Registry) -> None:
    with pytest.raises(RegistryError, match=r"invalid name 'my dqn' \(.*test_local.py:\d+\)"):
        registry.register("policy", "my dqn")(Mine)


def test_a_fresh_look_keeps_what_was_registered(registry: Registry) -> None:
    registry.register("policy", "mine")(Mine)
    registry.rescan()
    assert registry.find("policy", "mine").dist == LOCAL


def test_the_function_registers_with_the_registry_of_the_process(registry: Registry) -> None:
    assert default() is default()
    with using(registry):
        line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
        register("policy", "only_here")(Mine)
        assert default().find("policy", "only_here").file == f"{__file__}:{line}"
    with pytest.raises(UnknownComponentError):
        default().find("policy", "only_here")
