"""The standard hooks, the two forms they are written in, and hooks of one's own."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dicore.config import compile_config
from dicore.errors import CheckpointError, ConfigError, HookError
from dicore.interfaces.hook import POSITIONS, LearnerHook
from dicore.run.launch import launch
from dicore_plugins.hooks import (
    LogShowHook,
    SaveCkptHook,
    add_learner_hook,
    build_learner_hook_by_cfg,
    merge_hooks,
    register_learner_hook,
    show_hooks,
    standard,
)
from dicore_plugins.hooks.hook_config import Interval, build_hooks, hook_problems
from dicore_plugins.learners import BaseLearner
from dicore_plugins.learners.base.config import BaseLearnerConfig
from tests.conformance.test_all import SMALL
from tests.conftest import printed
from tests.plugins.learners.test_base import mode

LOOK = {"type": "log_show", "ext_args": {"freq": 1}}


FULL = {
    "type": "save_ckpt",
    "name": "mine",
    "priority": 40,
    "position": "before_iter",
    "ext_args": {"freq": 3},
}


@pytest.mark.parametrize(
    ("config", "built"),
    [
        (
            {
                "load_ckpt_before_run": "",
                "log_show_after_iter": 100,
                "save_ckpt_after_iter": 10_000,
                "save_ckpt_after_run": True,
            },
            [
                ("log_show_after_iter", 20, "after_iter"),
                ("save_ckpt_after_iter", 20, "after_iter"),
                ("save_ckpt_after_run", 20, "after_run"),
            ],
        ),
        (
            {"log_show_after_iter": 5, "any_name": FULL},
            [("log_show_after_iter", 20, "after_iter"), ("mine", 40, "before_iter")],
        ),
        ([FULL, "log_show"], [("mine", 40, "before_iter"), ("log_show", 20, "after_iter")]),
        ({"log_show": {"priority": 7}}, [("log_show", 7, "after_iter")]),
        ({"log_show": False}, []),
    ],
)
def test_each_form_builds_its_hooks(config: Any, built: list[Any]) -> None:
    assert [(hook.name, hook.priority, hook.position) for hook in build_hooks(config)] == built


def test_options_below_a_name_reach_the_hook() -> None:
    """`{log_show: {ext_args: …}}` is the full form; its name is the key."""
    for config in ({"log_show": {"ext_args": {"freq": 30}}}, {"log_show_after_iter": 30}):
        (hook,) = build_hooks(config)
        assert hook._interval.length == 30  # type: ignore[attr-defined]


def test_hooks_of_a_config_come_by_position() -> None:
    """As DI-engine's function of this name: simple and full forms, and lists."""
    simple = {"log_show_after_iter": 100, "save_ckpt_after_run": True, "load_ckpt_before_run": ""}
    found = build_learner_hook_by_cfg(simple)
    assert list(found) == list(POSITIONS)
    names = {position: [hook.name for hook in hooks] for position, hooks in found.items()}
    assert names["after_iter"] == ["log_show_after_iter"]
    assert names["after_run"] == ["save_ckpt_after_run"]
    for each in ("log_show", ["log_show"], {"type": "log_show"}):
        assert [hook.name for hook in build_learner_hook_by_cfg(each)["after_iter"]] == ["log_show"]
    with pytest.raises(HookError, match="log_sho"):
        build_learner_hook_by_cfg(["log_sho"])


@pytest.mark.parametrize("given", [type, 3, lambda engine: None, object])
def test_what_is_no_hook_class_is_not_registered(given: Any) -> None:
    with pytest.raises(HookError, match="is not a class of learner hooks"):
        register_learner_hook("wrong_in_test", given)


@pytest.mark.parametrize(
    ("hook", "text"),
    [
        ({"log_sho_after_iter": 100}, "log_show"),
        ([{"type": "save_ckpt", "positon": "after_iter"}], "did you mean 'position'"),
        ([{"type": "save_ckpt", "position": "after_itre"}], "after_itre"),
        ([{"name": "x"}], "needs a 'type'"),
        (7, "expected a dict or a list"),
        ([{"type": "save_ckpt", "priority": -1}], "hook[0].priority: must be >= 0, got -1"),
        ([{"type": "save_ckpt", "priority": "hi"}], "hook[0].priority: expected int, got str 'hi'"),
        ([{"type": "save_ckpt", "ext_args": 3}], "hook[0].ext_args: expected a dict of options"),
        ([{"type": "save_ckpt", "ext_args": {"frq": 3}}], "did you mean 'freq'"),
        ([{"type": "log_show", "ext_args": {"freq": "a"}}], "hook[0].ext_args.freq: expected int"),
        ({"log_show_after_iter": "a"}, "hook.log_show_after_iter: 'a' is not a value of hook"),
        ({"save_ckpt_after_iter": "a"}, "save_ckpt: 'a' with unit 'iter' is not an interval"),
        ({"load_ckpt_before_run": 3}, "expected the path of a checkpoint"),
        ({"log_show": {"ext_args": {"frq": 3}}}, "hook.log_show.ext_args.frq: log_show has no opt"),
        ({"log_show": 30}, "hook.log_show: 30 has no position; write log_show_after_iter: 30, or"),
    ],
)
def test_a_wrong_description_is_a_problem(hook: Any, text: str) -> None:
    problems = list(hook_problems(hook))
    assert len(problems) == 1
    assert text in ": ".join(problems[0])
    with pytest.raises(HookError):
        build_hooks(hook)


def test_merging_and_showing() -> None:
    one, two = LogShowHook("one", priority=30), LogShowHook("two", priority=10)
    hooks = merge_hooks([one], [two])
    assert hooks["after_iter"] == [two, one]
    add_learner_hook(hooks, LogShowHook("between", priority=20))
    assert [line.split()[-1] for line in show_hooks(hooks).splitlines()] == [
        "two",
        "between",
        "one",
    ]


@pytest.mark.parametrize(
    ("unit", "counts", "saved"),
    [
        ("iter", {"last_iter": [5, 10, 19, 20]}, [10, 20]),
        ("iter", {"last_iter": list(range(4, 50, 4))}, [12, 20, 32, 40]),
        ("env_step", {"envstep": [-1, 9, 64, 65, 128]}, [64, 128]),
        ("env_step", {"envstep": [9, 25, 26, 31]}, [25, 31]),
        ("second", {"now": [100.0, 109.0, 110.5, 119.0, 140.0]}, [110.5, 140.0]),
    ],
)
def test_an_interval_counts_updates_env_steps_or_seconds(
    monkeypatch: pytest.MonkeyPatch, unit: str, counts: dict[str, list[Any]], saved: list[Any]
) -> None:
    ((name, values),) = counts.items()
    engine = SimpleNamespace(last_iter=0, envstep=0, now=100.0, rank=0)
    found: list[Any] = []
    engine.save_checkpoint = lambda: found.append(getattr(engine, name))
    monkeypatch.setattr("time.monotonic", lambda: engine.now)
    hook = SaveCkptHook.from_value({"freq": 10, "unit": unit}, "after_iter")
    assert hook is not None
    for value in values:
        setattr(engine, name, value)
        hook(engine)
    assert found == saved
    SaveCkptHook(position="after_run")(engine)
    assert found == [*saved, values[-1]]


@pytest.mark.parametrize("unit", ["iter", "env_step"])
def test_a_resumed_interval_goes_on_where_it_was(unit: str) -> None:
    saved: list[int] = []
    engine = SimpleNamespace(last_iter=15, envstep=15, rank=0)
    engine.save_checkpoint = lambda: saved.append(engine.last_iter)
    hook = SaveCkptHook(freq=10, unit=unit)  # type: ignore[arg-type]
    hook.resume(engine)
    for engine.last_iter in (16, 19, 20, 21):
        engine.envstep = engine.last_iter
        hook(engine)
    assert saved == [20]


@pytest.mark.parametrize(
    "value",
    [
        "often",
        "10",
        2.5,
        -1,
        {"freq": 0},
        {"freq": True},
        {"freq": 5, "unit": "hours"},
        {"every": 5},
    ],
)
def test_what_is_no_interval_is_refused(value: Any) -> None:
    with pytest.raises(HookError, match="not an interval"):
        SaveCkptHook.from_value(value, "after_iter")


def test_loading_what_was_saved_except_into_a_resumed_run(tmp_path: Path) -> None:
    engine = BaseLearner(BaseLearnerConfig(hook=[]), mode(), exp_name=str(tmp_path))
    engine.train([], envstep=3)
    path = engine.save_checkpoint("pretrained")
    config = BaseLearnerConfig(hook={"load_ckpt_before_run": str(path)})
    twin, resumed = BaseLearner(config, mode()), BaseLearner(config, mode())
    twin.call_hook("before_run")
    assert (twin.last_iter, twin.envstep) == (1, 3)
    resumed.load_state_dict({**engine.state_dict(), "last_iter": 900})  # as `Run.restore` does
    resumed.call_hook("before_run")
    assert resumed.last_iter == 900


def test_a_hook_of_ones_own_keeps_what_it_counts() -> None:
    class Counts(LearnerHook):
        def __init__(self) -> None:
            super().__init__("counts", position="after_iter")
            self.n = 0

        def __call__(self, engine: Any) -> None:
            self.n += 1

        def state_dict(self) -> dict[str, int]:
            return {"n": self.n}

        def load_state_dict(self, state: dict[str, int]) -> None:
            self.n = state["n"]

    hooks = Counts(), Counts()
    engines = [BaseLearner(BaseLearnerConfig(hook=["log_show"]), mode()) for _ in hooks]
    for engine, hook in zip(engines, hooks, strict=True):
        engine.register_hook(hook)
    engines[0].train([])
    engines[0].train([])
    engines[1].load_state_dict(engines[0].state_dict())
    assert hooks[1].n == 2


def test_a_missing_checkpoint_is_an_error_before_training(tmp_path: Path) -> None:
    engine = BaseLearner(
        BaseLearnerConfig(hook={"load_ckpt_before_run": str(tmp_path / "no")}), mode()
    )
    engine.get_data = lambda batch_size: pytest.fail("training began")
    with pytest.raises(CheckpointError):
        engine.start()
    engine.close()


def test_log_show_writes_means_against_updates_and_env_steps() -> None:
    written: list[Any] = []
    board = SimpleNamespace(add_scalar=lambda *args: written.append(args))
    engine = BaseLearner(BaseLearnerConfig(hook={"log_show_after_iter": 2}), mode(), board)
    for _ in range(3):
        engine.train([], envstep=9)
    assert written == [
        ("learner/total_loss_iter", 0.0, 2),
        ("learner/total_loss_step", 0.0, 9),
    ]
    assert engine.monitor == {"total_loss": 0.0}
    assert len(engine.log_buffer) == 1


def test_log_show_gathers_its_looks_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, str]] = []
    log = SimpleNamespace(
        log_scalars=lambda *args, **kwargs: None,
        log_text=lambda text, channel: told.append((channel, text)),
    )
    engine = BaseLearner(BaseLearnerConfig(hook=[LOOK]), mode(), run=SimpleNamespace(log=log))
    engine.train([], envstep=7)
    for _ in range(3):
        engine.train([], envstep=9)
    monkeypatch.setattr(standard, "TABLE_EVERY_S", 0.0)
    engine.train([], envstep=11)
    assert [channel for channel, _ in told] == ["learner", "learner"]
    first, second = (text.splitlines()[1:] for _, text in told)
    assert first == ["update  env step  total_loss", "     1         7           0"]
    assert [line.split()[0] for line in second] == ["update", "2", "3", "4", "5"]


def test_looks_with_other_variables_are_another_table() -> None:
    told: list[str] = []
    log = SimpleNamespace(log_text=lambda text, channel: told.append(text.splitlines()[1]))
    hook = LogShowHook()
    for number, monitor in enumerate(({"a": 1.0}, {"a": 2.0}, {"a": 3.0, "b": 4.0})):
        engine = SimpleNamespace(
            run=SimpleNamespace(log=log), monitor=monitor, last_iter=number, envstep=-1
        )
        hook._tabulate(engine)
    assert told == ["update  env step  a"] * 2


def test_every_learner_looks_and_only_the_first_one_shows() -> None:
    written: list[Any] = []
    board = SimpleNamespace(add_scalar=lambda *args: written.append(args))
    engine = BaseLearner(BaseLearnerConfig(hook=[LOOK]), mode(), board, (1, 2))
    engine.train([])
    assert not written
    assert len(engine.log_buffer) == 0
    assert engine.monitor == {"total_loss": 0.0}


OWN = """
from dicore.interfaces.hook import POSITIONS, LearnerHook


class Doubling(LearnerHook):
    def __init__(self, name="doubling", *, priority=5, position="after_iter", start=1):
        super().__init__(name, position=position, priority=priority)
        self.value = start

    def __call__(self, engine):
        self.value *= 2
"""


def own_hooks(folder: Path) -> list[Any]:
    (folder / "own").mkdir()
    for name in ("own/hooks_in_test.py", "own_hooks_in_test.py"):
        (folder / name).write_text(OWN)
    full = {"type": "own.hooks_in_test:Doubling", "name": "a", "ext_args": {"start": 3}}
    return [full, {"type": "./own_hooks_in_test.py:Doubling", "name": "b", "priority": 4}]


def test_a_hook_of_ones_own_by_module_by_file_and_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    hooks = own_hooks(tmp_path)
    register_learner_hook("doubling_in_test", import_module("own.hooks_in_test").Doubling)
    named = {"type": "doubling_in_test", "name": "c", "ext_args": {"start": 10}}
    engine = BaseLearner(BaseLearnerConfig(hook=[*hooks, named]), mode())
    engine.train([])
    engine.train([])
    told = [(hook.name, hook.priority, hook.value) for hook in engine.hooks["after_iter"]]  # type: ignore[attr-defined]
    assert told == [("b", 4, 4), ("a", 5, 12), ("c", 5, 40)]


def test_a_whole_training_takes_a_hook_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    hook = json.dumps(own_hooks(tmp_path))
    few = ["pipeline.logger=[]", "pipeline.max_env_step=64", "env.stop_value=inf"]
    outcome = launch(SMALL, exp_name="run", overrides=[*few, f"policy.learn.learner.hook={hook}"])
    hooks = outcome.run.parts["learner"].hooks["after_iter"]  # type: ignore[attr-defined]
    assert [each.value for each in hooks] == [
        2 ** outcome.run.result.train_iter, 3 * 2 ** outcome.run.result.train_iter,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("./no_such_file.py:Doubling", "no_such_file.py"),
        ("no_such.module_in_test:Doubling", "no_such"),
        ("module_in_test:Doubling", "no module 'module_in_test'"),
        ("dicore.interfaces.hook:Doubling", "Doubling"),
    ],
)
def test_a_hook_that_is_not_there_is_a_problem_of_the_config(
    path: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ((where, text),) = hook_problems([{"type": path}])
    assert where == "hook[0]"
    assert said in text


def test_options_of_a_hook_of_ones_own_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    _, hook = own_hooks(tmp_path)
    told = list(hook_problems([{**hook, "ext_args": {"strat": 3}}, {"type": 7}]))
    assert told == [
        ("hook[0].ext_args.strat", f"{hook['type']} has no option 'strat'; did you mean 'start'?"),
        ("hook[1].type", "expected a name, got 7"),
    ]


def test_a_config_that_may_only_name_runs_no_hook_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text("import pathlib; pathlib.Path('ran').touch()")
    hook = json.dumps([{"type": "./evil.py:Hook"}])
    overrides = [f"policy.learn.learner.hook={hook}"]
    with pytest.raises(ConfigError, match=r"learner\.hook\[0\]\.type: .* --names-only forbids"):
        compile_config(SMALL, overrides=overrides, names_only=True)
    assert not (tmp_path / "ran").exists()


def test_a_hook_without_a_simple_form_says_so() -> None:
    class Plain(LearnerHook): ...

    register_learner_hook("plain_in_test", Plain)
    with pytest.raises(HookError, match=r"'plain_in_test' has no simple form .* ext_args"):
        build_hooks({"plain_in_test_after_iter": 3})


def test_the_standard_hooks_are_not_imported_to_compile_a_config() -> None:
    code = (
        "import sys; from dicore.config import compile_config;"
        "compile_config(preset='cartpole_dqn');"
        "print([name for name in sys.modules if name in ('torch', 'numpy')])"
    )
    assert printed(code) == "[]\n"


def test_a_wrong_hook_is_told_before_there_is_a_run_folder(tmp_path: Path) -> None:
    hook = json.dumps({"log_show_after_iter": "often"})
    overrides = [f"policy.learn.learner.hook={hook}"]
    with pytest.raises(ConfigError, match=r"policy\.learn\.learner\.hook\.log_show_after_iter"):
        launch(SMALL, overrides=overrides, exp_name=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@given(st.integers(1, 20), st.lists(st.integers(1, 30), max_size=30))
def test_an_interval_is_due_once_per_multiple_reached(length: int, bundles: list[int]) -> None:
    interval, count, yes = Interval(length), 0, 0
    for bundle in bundles:
        before, count = count, count + bundle
        due = interval.due(count)
        assert due == (count // length > before // length)
        yes += due
        assert not interval.due(count)
