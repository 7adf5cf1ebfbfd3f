"""Plugins by pluggy: loaded one by one, called without one stopping the others."""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

from dicore.cli import main
from dicore.errors import ConfigError, PluginHookError, PluginLoadError
from dicore.hookspecs import Plugins, load_plugins
from dicore.run.launch import launch
from dicore_registry import using
from dicore_registry.errors import PluginWarning
from dicore_tools.commands.doctor import examine
from tests.conftest import printed
from tests.registry.conftest import world
from tests.registry.world import World

HEAD = "from dicore.hookspecs import hookimpl\n\n@hookimpl\n"
GOOD = HEAD + "def dicore_report_header(run):\n    return [f'good {run}']\n"


def add(world: World, name: str, text: str, **more: Any) -> None:
    module = name.replace("-", "_")
    groups = {"dicore.plugin": {"it": f"{module}_plugin"}}
    world.add(name, groups, modules={f"{module}_plugin.py": text}, **more)


def test_without_plugins_pluggy_is_not_imported() -> None:
    code = (
        "import sys; from dicore.hookspecs import Plugins, load_plugins; "
        "from dicore_registry import Registry; p = load_plugins(Registry([])); "
        "print(bool(p), p.call('dicore_run_started'), "
        "p.run(lambda: 3, run=None), 'pluggy' in sys.modules)"
    )
    assert printed(code) == "False [] 3 False\n"


def test_two_of_one_name_are_both_called(world: World) -> None:
    add(world, "acme-rl", GOOD)
    add(world, "other-rl", GOOD.replace("good", "other"))
    plugins = load_plugins(world.registry())
    assert plugins
    assert plugins.lines("dicore_report_header", run=1) == ["good 1", "other 1"]


def test_each_call_has_a_manager_of_its_own(world: World) -> None:
    add(world, "acme-rl", GOOD)
    first, second = load_plugins(world.registry()), load_plugins(world.registry())
    assert first._manager is not second._manager


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            HEAD + "def dicore_run_startd(run): ...",
            "no hook 'dicore_run_startd'; did you mean 'dicore_run_started'?",
        ),
        (HEAD + "def other_hook(run): ...", "no hook 'other_hook'; hooks: dicore_add_commands, "),
        (
            HEAD + "def dicore_run_started(runn): ...",
            "hook 'dicore_run_started' has no argument 'runn'; it has run",
        ),
        (
            "def dicore_run_started(run): ...",
            "dicore_run_started is not marked with @hookimpl",
        ),
        ("x = 1", "it has no hooks"),
        ("1 / 0", "failed to import bad_rl_plugin: ZeroDivisionError: division by zero"),
        ("import sys; sys.exit(4)", "failed to import bad_rl_plugin: SystemExit: 4"),
        ("def __dir__(): raise RuntimeError('dir')", "RuntimeError: dir"),
        (
            HEAD.replace("@hookimpl", "@hookimpl(wrapper=True)") + "def dicore_run(run): ...",
            "function is not a generator function",
        ),
    ],
)
def test_a_bad_one_is_left_out_and_named(world: World, text: str, said: str) -> None:
    add(world, "acme-rl", GOOD)
    add(world, "bad-rl", text)
    add(world, "other-rl", GOOD.replace("good", "other"))
    with pytest.warns(PluginWarning) as caught:
        plugins = load_plugins(world.registry())
    assert plugins.lines("dicore_report_header", run=1) == ["good 1", "other 1"]
    assert len(caught) == len(plugins.problems) == 1
    assert plugins.problems[0].startswith("plugin 'it' (bad-rl 1.0)")
    assert said in plugins.problems[0]
    with pytest.raises(PluginLoadError, match=r"bad-rl 1\.0"):
        load_plugins(world.registry(), strict=True)


def test_strictness_may_stand_in_the_environment(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(world, "bad-rl", "1 / 0")
    monkeypatch.setenv("DICORE_STRICT_PLUGINS", "1")
    with pytest.raises(PluginLoadError, match="division by zero"):
        load_plugins(world.registry())


def test_one_for_another_dicore_is_not_imported(world: World) -> None:
    add(world, "old-rl", "1 / 0", requires=["dicore<0.1"])
    with pytest.warns(PluginWarning, match=r"is incompatible: needs dicore<0\.1 \(installed"):
        assert not load_plugins(world.registry())
    assert "old_rl_plugin" not in sys.modules


def test_a_denied_one_is_not_imported(world: World) -> None:
    add(world, "acme-rl", "1 / 0")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not load_plugins(world.registry({"DICORE_PLUGINS_DENY": "acme-rl"}))


class TestCalls:
    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ("return 7", "TypeError: 'int' object is not iterable"),
            ("return ['a', 7]", "TypeError: expected str, got 7"),
            ("raise SystemExit(9)", "SystemExit: 9"),
            ("yield 'a'; raise OSError('late')", "OSError: late"),
        ],
    )
    def test_an_observer_that_answers_wrongly_is_a_warning(
        self, world: World, body: str, said: str
    ) -> None:
        add(world, "acme-rl", GOOD)
        add(world, "bad-rl", HEAD + f"def dicore_report_header(run):\n    {body}\n")
        plugins = load_plugins(world.registry())
        with pytest.warns(PluginWarning, match=re.escape(said)) as caught:
            assert plugins.lines("dicore_report_header", run=1) == ["good 1"]
        assert "'it' (bad-rl 1.0)" in str(caught[0].message)

    def test_findings_that_are_none_are_an_error_of_the_doctor(self, world: World) -> None:
        add(world, "bad-rl", HEAD + "def dicore_doctor(registry):\n    return ['text']\n")
        (found,) = [each for each in examine(world.registry()) if each.check == "plugin"]
        assert found.level == "error"
        assert found.text.startswith("plugin 'it' (bad-rl 1.0): dicore_doctor raised TypeError")

    def test_commands_that_cannot_be_added_are_a_warning(self, world: World) -> None:
        add(world, "bad-rl", HEAD + "def dicore_add_commands(group):\n    raise OSError('no')\n")
        done = world.dicore("frobnicate")
        assert done.returncode == 2
        warning, error = done.stderr.splitlines()[:2]
        assert warning.endswith("'it' (bad-rl 1.0): dicore_add_commands raised OSError: no")
        assert error.startswith("error: no command named 'frobnicate'; ")

    @pytest.mark.parametrize(
        ("hook", "shown"), [("'log_show'", "'log_show'"), ("half", "<function half at .*>")]
    )
    def test_learner_hooks_that_are_none_are_told(
        self, world: World, tmp_path: Path, hook: str, shown: str
    ) -> None:
        half = "def half(engine): ...\nhalf.position = 'after_iter'  # no name, no priority\n"
        text = f"{half}{HEAD}def dicore_default_learner_hooks(cfg):\n    return [{hook}]\n"
        add(world, "bad-rl", text)
        folder = tmp_path / "run"
        with (
            using(world.registry()),
            pytest.raises(
                PluginLoadError, match=rf"returned {shown}, not a LearnerHook.*bad-rl 1\.0"
            ),
        ):
            launch(env="cartpole", policy="dqn", exp_name=str(folder))
        assert not folder.exists()

    def test_an_observer_that_raises_is_off_after_three_times(self, world: World) -> None:
        add(world, "acme-rl", GOOD)
        add(world, "bad-rl", HEAD + "def dicore_report_header(run):\n    raise OSError('full')\n")
        plugins = load_plugins(world.registry())
        said = []
        for _ in range(5):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                assert plugins.lines("dicore_report_header", run=1) == ["good 1"]
            said.append([str(each.message) for each in caught])
        text = "plugin 'it' (bad-rl 1.0): dicore_report_header raised OSError: full"
        assert said == [[text], [text], [f"{text}; it is no longer called"], [], []]

    def test_a_hook_that_matters_raises_with_its_plugin_named(self, world: World) -> None:
        add(world, "bad-rl", HEAD + "def dicore_pick_device(cfg):\n    return {}['gpu']\n")
        plugins = load_plugins(world.registry())
        with pytest.raises(PluginHookError) as caught:
            plugins.first("dicore_pick_device", cfg=None)
        assert caught.value.message == (
            "plugin 'it' (bad-rl 1.0): dicore_pick_device raised KeyError: 'gpu'"
        )
        assert isinstance(caught.value.__cause__, KeyError)

    def test_the_first_answer_counts(self, world: World) -> None:
        add(world, "acme-rl", HEAD + "def dicore_pick_device():\n    return None\n")
        add(world, "other-rl", HEAD + "def dicore_pick_device(cfg):\n    return 'cuda:' + cfg\n")
        plugins = load_plugins(world.registry())
        assert plugins.first("dicore_pick_device", cfg="1") == "cuda:1"
        assert plugins.first("dicore_make_logger", cfg="1") is None

    def test_a_wrapper_is_round_the_run(self, world: World) -> None:
        text = HEAD.replace("@hookimpl", "@hookimpl(wrapper=True)") + (
            "def dicore_run(run):\n    run.append('before')\n    found = yield\n"
            "    run.append('after')\n    return found\n"
        )
        add(world, "acme-rl", text)
        log: list[str] = []
        plugins = load_plugins(world.registry())
        assert plugins.run(lambda: log.append("work"), run=log) is None
        assert log == ["before", "work", "after"]

        def broken() -> None:
            raise RuntimeError("of the training itself")

        with pytest.raises(RuntimeError, match="itself") as caught:
            plugins.run(broken, run=log)
        assert not getattr(caught.value, "__notes__", [])  # the plugin has nothing to do with it

    def test_an_empty_shell_answers_nothing(self) -> None:
        assert Plugins().call("dicore_run_started", run=1) == []
        assert Plugins().first("dicore_make_logger", cfg=1) is None


# ---- a plugin sees the config before anything is built


__all__ = ["world"]

HOUSE_RULE = f"""
from dicore.errors import ConfigError
{HEAD}
def dicore_config_compiled(cfg, provenance, compiled):
    if cfg.policy.nstep > 2:
        who, said = provenance["policy"]["dist"], compiled.origin["policy.nstep"]
        raise ConfigError(f"policy.nstep: 2 at most in this house; {{who}}, {{said}}")
"""


def test_a_plugin_may_refuse_a_config(world: World, tmp_path: Path) -> None:
    add(world, "house-rules", HOUSE_RULE)
    folder = tmp_path / "run"
    with using(world.registry()):
        with pytest.raises(ConfigError, match=r"2 at most in this house; dicore-plugins, preset"):
            launch(env="cartpole", policy="dqn", exp_name=str(folder))
        assert not folder.exists()
        launch(
            env="cartpole", policy="dqn", exp_name=str(folder), max_env_step=10,
            overrides=["policy.nstep=1", "pipeline.logger=[]"],
        )  # fmt: skip
    assert (folder / "run.json").is_file()


SAID = f"""
from dicore.errors import ConfigError
{HEAD}
def dicore_config_loaded(cfg):
    assert "learner" not in cfg["policy"].get("learn", {{}})  # what nobody said is not there
    wished = cfg["policy"]["learn"]["batch_size"]
    cfg.clear()  # a copy
    if wished == "huge":
        raise ConfigError("policy.learn.batch_size: nothing is huge here")
"""


def test_a_plugin_sees_what_was_said_before_it_is_compiled(world: World, tmp_path: Path) -> None:
    add(world, "house-rules", SAID)
    wishes = {"env": "cartpole", "policy": "dqn", "exp_name": str(tmp_path / "run")}
    with using(world.registry()):
        with pytest.raises(ConfigError, match="nothing is huge here"):
            launch(**wishes, overrides=["policy.learn.batch_size=huge"])
        with pytest.raises(ConfigError, match="expected int, got str 'apple'"):
            launch(**wishes, overrides=["policy.learn.batch_size=apple"])
    assert not (tmp_path / "run").exists()


COMMAND = "import click\n\n@click.command()\ndef boom():\n    raise ValueError('no money')\n"


@pytest.mark.parametrize("declared", [True, False])
def test_a_command_that_fails_is_one_error_that_names_its_package(
    declared: bool, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """R-G06: `--debug` shows the traceback."""
    if declared:
        groups = {"dicore.command": {"boom": "acme_rl_boom:boom"}}
        world.add("acme-rl", groups, modules={"acme_rl_boom.py": COMMAND})
    else:
        add(world, "acme-rl", f"{COMMAND}{HEAD}def dicore_add_commands(group):\n    "
            "group.add_command(boom)\n")  # fmt: skip
    with using(world.registry()):
        assert main(["boom"]) == 3
        said = capsys.readouterr().err
        provider = "acme-rl" if declared else "a plugin"
        assert said == (
            f"error: command 'boom' of {provider} raised ValueError: no money\n"
            "  hint: --debug shows the traceback\n"
        )
        assert main(["--debug", "boom"]) == 3
        assert "in boom\n    raise ValueError('no money')" in capsys.readouterr().err
