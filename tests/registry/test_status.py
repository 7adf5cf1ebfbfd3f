"""What the metadata alone says of an entry; nothing foreign is importable in these tests."""

from __future__ import annotations

import itertools
import random
import sys
from pathlib import Path

import pytest

from dicore_registry import Entry, Registry
from tests.registry.world import VERSION, World

TEDQ = {"dicore.policy": {"tedq": "acme_rl.tedq:TEDQConfig"}}


def only(registry: Registry, kind: str, name: str, dist: str = "") -> Entry:
    """Returns the one entry of that name."""
    found = [e for e in registry.entries(kind) if e.name == name and dist in ("", e.dist)]
    assert len(found) == 1, found
    return found[0]


def test_an_entry_says_what_its_metadata_says(world: World) -> None:
    world.add("Acme.RL", TEDQ, version="1.2.post1")
    entry = only(world.registry(), "policy", "tedq")
    assert entry == Entry("policy", "tedq", "acme-rl", "1.2.post1", "acme_rl.tedq:TEDQConfig")
    assert (entry.status, entry.reason) == ("ok", "")
    assert (entry.qualified, entry.module, entry.attr) == (
        "acme-rl/tedq",
        "acme_rl.tedq",
        "TEDQConfig",
    )


def test_first_party_components_are_found_like_all_others(world: World) -> None:
    registry = world.registry()
    assert only(registry, "policy", "dqn").dist == "dicore-plugins"
    assert only(registry, "env", "cartpole").dist == "dicore-contrib-envs"
    assert only(registry, "command", "list").dist == "dicore"


def test_groups_that_hold_no_components_are_listed_when_asked_for(world: World) -> None:
    registry = world.registry()
    assert {entry.kind for entry in registry.entries()}.isdisjoint({"kind", "default", "plugin"})
    assert only(registry, "kind", "policy").target == "dicore.interfaces.policy:KIND"
    assert only(registry, "default", "buffer").target == "naive"


def test_a_pluggy_module_needs_no_attribute(world: World) -> None:
    world.add("acme-rl", {"dicore.plugin": {"report": "acme_rl.report"}})
    assert only(world.registry(), "plugin", "report").status == "ok"


def test_of_one_distribution_twice_on_the_path_the_first_counts(world: World) -> None:
    world.add("acme-rl", {"dicore.policy": {"new": "acme:New"}}, version="2.0")
    old = World(world.folder / "older", world.folder / "none")
    old.add("Acme_RL", {"dicore.policy": {"old": "acme:Old"}}, version="1.0")
    registry = Registry([*world.distributions(), *old.distributions()], environ={})
    assert [e.version for e in registry.entries("policy") if e.dist == "acme-rl"] == ["2.0"]


def test_names_are_canonical(world: World) -> None:
    world.add("acme-rl", {"dicore.policy": {"My-DQN": "acme:A"}})
    assert only(world.registry(), "policy", "my_dqn").status == "ok"


class TestUnavailable:
    def test_an_extra_that_is_not_installed(self, world: World) -> None:
        world.add(
            "acme-envs",
            {"dicore.env": {"tennis": "acme_envs.atari:Tennis [atari]"}},
            extras={"atari": ["ale-py>=0.8", "opencv-python"]},
        )
        entry = only(world.registry(), "env", "tennis")
        assert entry.status == "unavailable"
        assert entry.extras == ("atari",)
        assert entry.target == "acme_envs.atari:Tennis"
        assert entry.reason == ("needs ale-py>=0.8, opencv-python: pip install 'acme-envs[atari]'")

    @pytest.mark.parametrize(
        ("version", "reason"),
        [
            ("0.9.1", ""),
            ("0.7.5", "needs ale-py>=0.8 (installed: 0.7.5): pip install 'acme-envs[atari]'"),
        ],
    )
    def test_the_version_of_what_is_installed_counts(
        self, world: World, version: str, reason: str
    ) -> None:
        groups = {"dicore.env": {"tennis": "a:P [atari]"}}
        world.add("acme-envs", groups, extras={"atari": ["ale-py>=0.8"]})
        world.add("ale_py", version=version)
        entry = only(world.registry(), "env", "tennis")
        assert (entry.status, entry.reason) == ("unavailable" if reason else "ok", reason)

    def test_the_extras_of_an_extra_count_too(self, world: World) -> None:
        world.add(
            "acme-envs",
            {"dicore.env": {"lander": "a:L [all]"}},
            extras={"box2d": ["gymlike[box2d]"], "all": ["acme-envs[box2d]"]},
        )
        world.add("gymlike", extras={"box2d": ["box2d-py==2.3.5"], "other": ["moviepy"]})
        assert only(world.registry(), "env", "lander").reason == (
            "needs box2d-py==2.3.5: pip install 'acme-envs[all]'"
        )

    def test_a_requirement_for_another_platform_does_not_count(self, world: World) -> None:
        world.add(
            "acme-envs",
            {"dicore.env": {"tennis": "a:P [atari]"}},
            requires=['nowhere; extra == "atari" and sys_platform == "no-such-platform"'],
            extras={"atari": []},
        )
        assert only(world.registry(), "env", "tennis").status == "ok"


class TestIncompatible:
    @pytest.mark.parametrize(
        ("requires", "status", "reason"),
        [
            ("dicore<0.1", "incompatible", f"needs dicore<0.1 (installed: {VERSION})"),
            ("numpy", "ok", ""),
        ],
    )
    def test_made_for_another_dicore(
        self, world: World, requires: str, status: str, reason: str
    ) -> None:
        world.add("old-rl", {"dicore.policy": {"old": "old_rl:Old"}}, requires=[requires])
        entry = only(world.registry(), "policy", "old")
        assert (entry.status, entry.reason) == (status, reason)

    def test_it_takes_no_name_from_anybody(self, world: World) -> None:
        world.add("acme-rl", TEDQ)
        world.add("old-rl", {"dicore.policy": {"tedq": "old_rl:TEDQ"}}, requires=["dicore>=9"])
        registry = world.registry()
        assert only(registry, "policy", "tedq", "acme-rl").status == "ok"
        assert only(registry, "policy", "tedq", "old-rl").status == "incompatible"


class TestSameName:
    def test_of_two_strangers_nobody_gets_it(self, world: World) -> None:
        world.add("acme-rl", TEDQ)
        world.add("other-rl", {"dicore.policy": {"TEDQ": "other_rl:TEDQ"}})
        registry = world.registry()
        first = only(registry, "policy", "tedq", "acme-rl")
        second = only(registry, "policy", "tedq", "other-rl")
        assert (first.status, first.reason) == (
            "conflict",
            "also provided by other-rl; write 'acme-rl/tedq'",
        )
        assert (second.status, second.reason) == (
            "conflict",
            "also provided by acme-rl; write 'other-rl/tedq'",
        )

    def test_dicore_keeps_its_names(self, world: World) -> None:
        world.add("acme-rl", {"dicore.policy": {"dqn": "acme_rl:DQN"}})
        registry = world.registry()
        assert only(registry, "policy", "dqn", "dicore-plugins").status == "ok"
        entry = only(registry, "policy", "dqn", "acme-rl")
        assert (entry.status, entry.reason) == (
            "shadowed",
            "dicore-plugins has priority; write 'acme-rl/dqn'",
        )

    def test_one_object_under_two_distributions_is_no_conflict(self, world: World) -> None:
        world.add("acme-rl", TEDQ)
        world.add("acme-rl-renamed", TEDQ)
        registry = world.registry()
        assert only(registry, "policy", "tedq", "acme-rl").status == "ok"
        entry = only(registry, "policy", "tedq", "acme-rl-renamed")
        assert (entry.status, entry.reason) == ("shadowed", "the same object as acme-rl/tedq")

    def test_one_package_that_declares_two_is_broken_and_disturbs_nobody(
        self, world: World
    ) -> None:
        world.add("acme-rl", {"dicore.policy": {"my-tedq": "acme:A", "my_tedq": "acme:B"}})
        alone = world.registry()
        world.add("other-rl", {"dicore.policy": {"MY_TEDQ": "other:C"}})
        registry = world.registry()
        for each in (alone, registry):
            found = [entry for entry in each.entries("policy") if entry.dist == "acme-rl"]
            assert [(e.name, e.status, e.reason) for e in found] == [
                ("my_tedq", "broken", "acme-rl declares 'my_tedq' more than once")
            ] * 2
        assert only(registry, "policy", "my_tedq", "other-rl").status == "ok"
        assert registry.find("policy", "my_tedq").dist == "other-rl"

    def test_another_kind_is_another_name(self, world: World) -> None:
        world.add("acme-rl", {"dicore.buffer": {"dqn": "acme_rl:Buffer"}})
        assert only(world.registry(), "buffer", "dqn").status == "ok"

    def test_the_order_of_installation_does_not_matter(self, world: World) -> None:
        world.add("acme-rl", TEDQ)
        world.add("other-rl", {"dicore.policy": {"tedq": "o:S"}, "dicore.polcy": {"x": "o:X"}})
        world.add("third-rl", {"dicore.policy": {"tedq": "t:S", "dqn": "t:D"}})
        sources = world.distributions()
        expected = Registry(sources, environ={}).entries()
        for seed in range(20):
            shuffled = random.Random(seed).sample(sources, len(sources))
            assert Registry(shuffled, environ={}).entries() == expected

    def test_the_hash_seed_does_not_matter(self, world: World) -> None:
        world.add("acme-rl", TEDQ)
        world.add("other-rl", {"dicore.policy": {"tedq": "o:S"}, "dicore.polcy": {"x": "o:X"}})
        seen = {
            world.dicore("list", "--json", PYTHONHASHSEED=str(seed)).stdout for seed in range(20)
        }
        assert len(seen) == 1
        assert '"conflict"' in seen.pop()


class TestBroken:
    @pytest.mark.parametrize(
        ("group", "reason"),
        [
            ("dicore.polcy", "unknown kind 'dicore.polcy'; did you mean 'dicore.policy'?"),
            ("dicore.policies", "unknown kind 'dicore.policies'; did you mean 'dicore.policy'?"),
            ("dicore.Policy", "unknown kind 'dicore.Policy'; did you mean 'dicore.policy'?"),
            ("dicore_policy", "unknown kind 'dicore_policy'; did you mean 'dicore.policy'?"),
            ("dicore", "unknown kind 'dicore'; did you mean 'dicore.<kind>'?"),
            ("dicore.zzzz", "unknown kind 'dicore.zzzz'"),
        ],
    )
    def test_a_misspelt_group(self, world: World, group: str, reason: str) -> None:
        world.add("acme-rl", {group: {"vmpo": "acme_rl:VMPO"}})
        found = [entry for entry in world.registry().entries() if entry.name == "vmpo"]
        assert [(entry.status, entry.reason) for entry in found] == [("broken", reason)]

    def test_a_kind_of_a_package_that_is_missing_names_it(self, tmp_path: Path) -> None:
        world = World(tmp_path / "site", tmp_path / "house")
        world.own("dicore", "dicore-plugins")
        world.add("acme-rl", {"dicore.commander": {"vmpo": "acme_rl:VMPO"}})
        (found,) = (each for each in world.registry().entries() if each.name == "vmpo")
        assert found.reason == (
            "unknown kind 'dicore.commander'; it is provided by 'dicore-dist': pip install"
            " dicore-dist"
        )

    def test_a_group_of_somebody_else_is_left_alone(self, world: World) -> None:
        world.add(
            "dicore-mazes", {"dicore_mazes.level": {"one": "mazes:One"}, "dicorex": {"a": "b"}}
        )
        assert not [e for e in world.registry().entries() if e.dist == "dicore-mazes"]

    @pytest.mark.parametrize(
        "target", ["acme rl:VMPO", "acme_rl", "acme_rl:", ":VMPO", "1x:VMPO", ""]
    )
    def test_a_target_that_names_nothing(self, world: World, target: str) -> None:
        world.add("acme-rl", {"dicore.policy": {"vmpo": target}})
        entry = only(world.registry(), "policy", "vmpo")
        assert (entry.status, entry.reason) == ("broken", f"target {target!r} is not 'module:attr'")

    @pytest.mark.parametrize("name", ["2x", "a.b", "a/b", "a:b", "_x", "ä"])
    def test_a_name_that_is_not_allowed(self, world: World, name: str) -> None:
        world.add("acme-rl", {"dicore.policy": {name: "acme_rl:VMPO"}})
        entry = only(world.registry(), "policy", name)
        assert entry.status == "broken"
        assert (
            entry.reason == f"invalid name {name!r}: expected a letter, then letters, digits, '_'"
        )

    def test_an_extra_that_nobody_defines(self, world: World) -> None:
        world.add("acme-rl", {"dicore.policy": {"vmpo": "acme:P [fast]"}}, extras={"slow": []})
        entry = only(world.registry(), "policy", "vmpo")
        assert (entry.status, entry.reason) == ("broken", "acme-rl defines no extra 'fast'")

    def test_a_default_of_a_kind_that_is_not(self, world: World) -> None:
        world.add("acme-rl", {"dicore.default": {"bufer": "naive"}})
        found = [entry for entry in world.registry().entries() if entry.dist == "acme-rl"]
        assert [(entry.status, entry.reason) for entry in found] == [
            ("broken", "default of unknown kind 'bufer'; did you mean 'buffer'?")
        ]

    def test_a_foreign_kind_makes_its_group_known(self, world: World) -> None:
        world.add(
            "acme-rl",
            {
                "dicore.kind": {"curriculum": "acme.kinds:KIND"},
                "dicore.curriculum": {"a": "acme:A"},
            },
        )
        registry = world.registry()
        assert only(registry, "curriculum", "a").status == "ok"
        assert "curriculum" in registry.kinds()


class TestSwitches:
    @pytest.fixture
    def two(self, world: World) -> World:
        world.add("acme-rl", {"dicore.policy": {"tedq": "a:S", "vmpo": "a:P"}})
        world.add("other-rl", {"dicore.policy": {"tedq": "o:S"}})
        return world

    @pytest.mark.parametrize(
        ("environ", "disabled", "reason"),
        [
            (
                {"DICORE_NO_PLUGINS": "1"},
                {"acme-rl/tedq", "acme-rl/vmpo", "other-rl/tedq"},
                "switched off by DICORE_NO_PLUGINS",
            ),
            ({"DICORE_NO_PLUGINS": "0"}, set(), ""),
            ({"DICORE_PLUGINS_ALLOW": "Acme_RL"}, {"other-rl/tedq"}, "not in DICORE_PLUGINS_ALLOW"),
            (
                {"DICORE_PLUGINS_DENY": "other-rl, policy/vmpo"},
                {"acme-rl/vmpo", "other-rl/tedq"},
                "switched off by DICORE_PLUGINS_DENY",
            ),
            (
                {"DICORE_PLUGINS_DENY": "acme-rl/tedq"},
                {"acme-rl/tedq"},
                "switched off by DICORE_PLUGINS_DENY",
            ),
            (
                {"DICORE_PLUGINS_DENY": "policy/dqn"},
                {"dicore-plugins/dqn"},
                "switched off by DICORE_PLUGINS_DENY",
            ),
        ],
    )
    def test_what_is_switched_off_is_disabled(
        self, two: World, environ: dict[str, str], disabled: set[str], reason: str
    ) -> None:
        entries = two.registry(environ).entries("policy")
        off = {entry.qualified: entry.reason for entry in entries if entry.status == "disabled"}
        assert off == dict.fromkeys(disabled, reason)

    def test_switching_one_off_settles_a_conflict(self, two: World) -> None:
        registry = two.registry({"DICORE_PLUGINS_DENY": "other-rl"})
        assert registry.find("policy", "tedq").dist == "acme-rl"


def test_nothing_foreign_is_imported(world: World) -> None:
    module = "import sys; sys.exit('imported')"
    files = {f"{name}/__init__.py": module for name in ("acme", "other")}
    groups = {"dicore.policy": {"tedq": "acme.tedq:TEDQ"}, "dicore.polcy": {"x": "other:X"}}
    world.add("acme-rl", groups, modules=files)
    registry = world.registry()
    for entry in itertools.chain(registry.entries(), registry.entries("kind")):
        registry.summary(entry)
    assert not {"acme", "other"} & set(sys.modules)
