"""Looking a name up: what is found, and the exact text of every way to fail."""

from __future__ import annotations

from typing import Any

import pytest

from dicore_registry import Registry, explain
from dicore_registry.errors import (
    MissingDependencyError,
    PluginConflictError,
    PluginLoadError,
    PluginVersionError,
    RegistryError,
    UnknownComponentError,
)
from dicore_registry.queries import look_up
from tests.registry.world import VERSION, World

WHERE = "policy.other.replay_buffer.type"


def failure(registry: Registry, kind: str, name: str, where: str = WHERE) -> RegistryError:
    """Returns the error of a lookup that fails."""
    with pytest.raises(RegistryError) as caught:
        registry.find(kind, name, where)
    return caught.value


class TestFound:
    @pytest.mark.parametrize(
        ("kind", "name"),
        [
            *(("buffer", name) for name in ("naive", "NAIVE", " naive ", "dicore-plugins/naive")),
            ("buffer", "Dicore_Plugins/Naive"),
            ("learner-hook", "log-show"),
        ],
    )
    def test_by_every_spelling(self, world: World, kind: str, name: str) -> None:
        found = world.registry().find(kind, name).qualified
        assert found == f"dicore-plugins/{'naive' if kind == 'buffer' else 'log_show'}"

    def test_an_old_config_means_what_it_meant(self, world: World) -> None:
        world.add("acme-rl", {"dicore.policy": {"dqn": "acme:DQN"}})
        registry = world.registry()
        assert registry.find("policy", "dqn").dist == "dicore-plugins"
        assert registry.find("policy", "acme-rl/dqn").dist == "acme-rl"


class TestNumbered:
    @pytest.fixture
    def registry(self, world: World) -> Registry:
        names = {f"mix_v{number}": f"acme:V{number}" for number in (1, 2, 10)}
        world.add("acme-rl", {"dicore.buffer": names})
        return world.registry()

    def test_a_bare_name_is_the_highest_and_a_number_is_itself(self, registry: Registry) -> None:
        for name, found in (("mix", "mix_v10"), ("acme-rl/mix", "mix_v10"), ("mix_v2", "mix_v2")):
            assert registry.find("buffer", name).name == found

    def test_an_unknown_number_lists_the_existing_ones(self, registry: Registry) -> None:
        assert str(failure(registry, "buffer", "mix_v3")) == (
            f"{WHERE}: no buffer named 'mix_v3'; available: 'mix_v1', 'mix_v2', 'mix_v10'"
        )

    def test_a_name_without_number_comes_first(self, world: World) -> None:
        world.add("acme-rl", {"dicore.buffer": {"mix": "a:M", "mix_v2": "a:M2"}})
        assert world.registry().find("buffer", "mix").target == "a:M"

    def test_a_preset_without_number_is_version_1(self, world: World) -> None:
        group = {"pong": "a:P", "pong_v2": "a:P2", "breakout_v2": "a:B2", "lake": "a:L"}
        world.add("acme-rl", {"dicore.preset": group, "dicore.buffer": {"mix": "a:M"}})
        registry = world.registry()
        for name in ("pong_v1", "acme-rl/pong_v1", "Pong-v1"):
            assert registry.find("preset", name).target == "a:P"
        assert registry.find("preset", "lake_v1").target == "a:L"
        for kind, name in (("preset", "breakout_v1"), ("preset", "lake_v2"), ("buffer", "mix_v1")):
            assert isinstance(failure(registry, kind, name), UnknownComponentError)

    def test_an_old_version_comes_before_the_name_without_number(self, world: World) -> None:
        world.add("acme-rl", {"dicore.preset": {"pong": "a:P2", "pong_v1": "a:P1"}})
        assert world.registry().find("preset", "pong_v1").target == "a:P1"

    def test_numbers_of_several_packages_are_ambiguous(self, world: World) -> None:
        world.add("acme-rl", {"dicore.buffer": {"mix_v1": "a:M", "mix_v2": "a:M2"}})
        world.add("other-rl", {"dicore.buffer": {"mix_v3": "o:M3"}})
        assert str(failure(world.registry(), "buffer", "mix")) == (
            f"{WHERE}: buffer 'mix' is provided by 2 packages; "
            "write one of: 'acme-rl/mix_v2', 'other-rl/mix_v3'"
        )

    def test_a_stranger_cannot_outnumber_dicore(self, world: World) -> None:
        world.add("acme-rl", {"dicore.buffer": {"naive_v9": "a:M"}})
        registry = world.registry()
        assert registry.find("buffer", "naive").dist == "dicore-plugins"
        assert registry.find("buffer", "naive_v9").dist == "acme-rl"


class TestUnknown:
    @pytest.mark.parametrize("text", ["Hill-v0", "env/Hill-v0", "./a.py:Hill", "hills:Hill-v0"])
    def test_an_environment_by_id_or_file_has_commands(self, world: World, text: str) -> None:
        with pytest.raises(UnknownComponentError) as caught:
            look_up(world.registry(), text)
        assert f"dicore check {text.removeprefix('env/')} " in str(caught.value.hint)
        for other in ("preset/Hill-v1", "hill"):
            with pytest.raises(UnknownComponentError) as caught:
                look_up(world.registry(), other)
            assert not caught.value.hint

    def test_misspelt(self, world: World) -> None:
        error = failure(world.registry(), "policy", "dqnn", "policy.type")
        assert str(error) == "policy.type: no policy named 'dqnn'; did you mean 'dqn'?"
        assert isinstance(error, UnknownComponentError)
        assert error.exit_code == 2

    @pytest.mark.parametrize(
        ("kind", "name", "hint"),
        [
            ("policy", "cartpole", "'cartpole' is an env"),
            ("env", "random", "'random' is a policy"),
            ("env", "dqn", "'dqn' is a policy and a model"),
            ("env", "CartPole-v1", "available: 'cartpole'"),
            (
                "buffer",
                "prio",
                "installed: advanced, deque, elastic, episode, file, mine, naive, sequence"
                " (dicore list buffer)",
            ),
            (
                "policy",
                "vmpo",
                "polcy/vmpo (acme-rl 1.0) is broken: "
                "unknown kind 'dicore.polcy'; did you mean 'dicore.policy'?",
            ),
        ],
    )
    def test_the_name_is_repeated_and_the_nearest_thing_is_named(
        self, world: World, kind: str, name: str, hint: str
    ) -> None:
        groups = {"dicore.buffer": {"mine": "a:A"}, "dicore.polcy": {"vmpo": "acme:VMPO"}}
        world.add("acme-rl", groups)
        assert str(failure(world.registry(), kind, name)) == (
            f"{WHERE}: no {kind} named '{name}'; {hint}"
        )

    def test_among_many(self, world: World) -> None:
        world.add("acme-rl", {"dicore.buffer": {f"b{number:02d}": "a:A" for number in range(30)}})
        registry = world.registry()
        names = sorted({entry.name for entry in registry.entries("buffer")})
        assert len(names) > 30
        assert str(failure(registry, "buffer", "prio")).endswith(
            f"; installed: {', '.join(names[:20])} and {len(names) - 20} more (dicore list buffer)"
        )

    def test_known_but_not_installed(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.mktemp("bare")
        world = World(folder / "site", folder / "house")
        world.own("dicore")
        registry = world.registry()
        assert str(failure(registry, "policy", "dqn", "policy.type")) == (
            "policy.type: no policy named 'dqn'; "
            "it is provided by 'dicore-plugins': pip install dicore-plugins"
        )
        assert str(failure(registry, "env", "cartpoll", "env.type")) == (
            "env.type: no env named 'cartpoll'; did you mean 'cartpole', "
            "provided by 'dicore-contrib-envs': pip install dicore-contrib-envs?"
        )
        assert str(failure(registry, "policy", "zzz", "policy.type")) == (
            "policy.type: no policy named 'zzz'; no policy is installed; "
            "'dicore-plugins' provides some: pip install dicore-plugins"
        )

    @pytest.mark.parametrize(
        ("name", "hint"),
        [
            ("acme-rl/rdeq", "did you mean 'acme-rl/tedq'?"),
            ("acme-lr/tedq", "did you mean 'acme-rl/tedq'?"),
            ("acme-rl/zzzzzzzz", "acme-rl provides acme-rl/tedq"),
            (
                "mystery/qwertz",
                "no installed package 'mystery' provides a policy; no file 'mystery/qwertz' either",
            ),
            *((name, "expected 'name' or 'package/name'") for name in ("/", "a/b/c", "/x", "x/")),
        ],
    )
    def test_qualified(self, world: World, name: str, hint: str) -> None:
        world.add("acme-rl", {"dicore.policy": {"tedq": "acme:S"}})
        assert str(failure(world.registry(), "policy", name, "policy.type")) == (
            f"policy.type: no policy named '{name}'; {hint}"
        )

    def test_kind(self, world: World) -> None:
        assert str(failure(world.registry(), "polcy", "dqn", "")) == (
            "unknown kind 'polcy'; did you mean 'policy'?"
        )
        assert str(explain.unknown_kind("buffer_middleware", ["middleware"], "")) == (
            "unknown kind 'buffer_middleware'; "
            "it is provided by 'dicore-compat': pip install dicore-compat"
        )

    def test_where_dicore_itself_is_not_installed(self) -> None:
        assert str(failure(Registry([], environ={}), "policy", "dqn", "")) == (
            "unknown kind 'policy'; no installed package declares kinds: pip install dicore"
        )

    def test_without_a_path_nothing_is_put_before(self, world: World) -> None:
        assert str(failure(world.registry(), "policy", "dqnn", "")).startswith("no policy named")


class TestUnusable:
    def test_conflict(self, world: World) -> None:
        world.add("acme-rl", {"dicore.policy": {"tedq": "acme:S"}})
        world.add("other-rl", {"dicore.policy": {"tedq": "other:S"}})
        registry = world.registry()
        assert registry.find("policy", "other-rl/tedq").target == "other:S"
        error = failure(registry, "policy", "tedq", "policy.type")
        assert str(error) == (
            "policy.type: policy 'tedq' is provided by 2 packages; "
            "write one of: 'acme-rl/tedq', 'other-rl/tedq'"
        )
        assert isinstance(error, PluginConflictError)
        assert (error.exit_code, error.context["choices"]) == (3, ("acme-rl/tedq", "other-rl/tedq"))

    @pytest.mark.parametrize(
        ("target", "more", "environ", "reason", "error"),
        [
            (
                "acme:P [atari]",
                {"extras": {"atari": ["ale-py"]}},
                {},
                "unavailable: needs ale-py: pip install 'acme-rl[atari]'",
                MissingDependencyError,
            ),
            (
                "acme:P",
                {"requires": ["dicore<0.1"]},
                {},
                f"incompatible: needs dicore<0.1 (installed: {VERSION})",
                PluginVersionError,
            ),
            (
                "acme:P",
                {},
                {"DICORE_NO_PLUGINS": "1"},
                "disabled: switched off by DICORE_NO_PLUGINS",
                RegistryError,
            ),
            ("acme", {}, {}, "broken: target 'acme' is not 'module:attr'", PluginLoadError),
        ],
        ids=lambda value: value.split(":")[0] if isinstance(value, str) else "",
    )
    def test_the_reason_is_named(
        self,
        world: World,
        target: str,
        more: dict[str, Any],
        environ: dict[str, str],
        reason: str,
        error: type[RegistryError],
    ) -> None:
        world.add("acme-rl", {"dicore.env": {"tennis": target}}, version="2.0", **more)
        found = failure(world.registry(environ), "env", "tennis", "env.type")
        assert str(found) == f"env.type: env 'tennis' (acme-rl 2.0) is {reason}"
        assert isinstance(found, error)
        assert found.exit_code == (2 if error is RegistryError else 3)

    def test_a_qualified_name_does_not_hide_what_is_missing(self, world: World) -> None:
        for dist in ("acme-envs", "other-envs"):
            groups = {"dicore.env": {"tennis": f"{dist[:4]}:P [atari]"}}
            world.add(dist, groups, extras={"atari": ["ale-py"]})
        assert str(failure(world.registry(), "env", "acme-envs/tennis", "env.type")) == (
            "env.type: env 'tennis' (acme-envs 1.0) is unavailable: "
            "needs ale-py: pip install 'acme-envs[atari]'"
        )


class TestDefault:
    def test_what_a_kind_uses_when_a_config_is_silent(self, world: World) -> None:
        registry = world.registry()
        assert registry.default("buffer") == "naive"
        assert registry.default("policy") is None

    def test_dicore_decides_first(self, world: World) -> None:
        world.add("acme-rl", {"dicore.default": {"buffer": "mine", "policy": "tedq"}})
        registry = world.registry()
        assert registry.default("buffer") == "naive"
        assert registry.default("policy") == "tedq"

    def test_strangers_who_disagree(self, world: World) -> None:
        world.add("acme-rl", {"dicore.default": {"policy": "tedq"}})
        world.add("other-rl", {"dicore.default": {"policy": "vmpo"}})
        with pytest.raises(PluginConflictError) as caught:
            world.registry().default("policy", "policy")
        assert str(caught.value) == (
            "policy: 2 packages set the default policy (acme-rl: 'tedq', other-rl: 'vmpo'); "
            "name one in the config"
        )

    def test_strangers_who_agree(self, world: World) -> None:
        world.add("acme-rl", {"dicore.default": {"policy": "tedq"}})
        world.add("other-rl", {"dicore.default": {"policy": "tedq"}})
        assert world.registry().default("policy") == "tedq"


def test_the_table_of_known_names_is_what_the_projects_declare(world: World) -> None:
    from dicore_registry.known import known

    registry = world.registry()
    groups = {*registry.kinds(), "api", "config_format"}
    declared = {
        group: {
            entry.attr if group == "api" else entry.name: entry.dist
            for entry in registry.entries(group)
            if entry.dist != "dicore"
        }
        for group in groups
    }
    assert {group: known(group) for group in groups} == declared
    assert {*declared["api"].values(), *declared["command"].values()} >= {"dicore-tools"}
