"""A run folder of a stranger: whatever its config names, nobody imports it without `--trust`."""

from __future__ import annotations

import contextlib
import json
import random
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from dicore.cli import main
from dicore.config import bind, compile_config, write_config
from dicore.config.writer import saved_tree
from dicore.data.json_codec import dumps
from dicore.errors import ConfigError, DicoreError
from dicore.interfaces.logger import LogTarget
from dicore.run.env_factory import BuildContext, spec_of
from dicore.run.launch import launch
from dicore_dist import ParallelPipeline
from dicore_dist.commands.pipeline import DistPipeline
from dicore_dist.links.ray_runtime import check_address
from dicore_dist.workers.learners import LearnerRole
from dicore_dist.workers.roles import CollectorRole, EvaluatorRole, RoleSpec
from dicore_dist.workers.worker_config import WorkerConfig
from dicore_plugins.loggers import AlertLogger, MlflowLogger
from dicore_plugins.pipelines.parts import Parts
from dicore_registry import CodePathError, code_paths, default
from dicore_tools.agent import Agent
from dicore_tools.sessions import Session
from tests.tools.conftest import PATHS, SMALL, Plant, plants

SPAWN = {"distutils.spawn:spawn": {"ext_args": {"cmd": [sys.executable, "-c", "open('out', 'w')"]}}}

KNOWN: tuple[Plant, ...] = (
    (("policy", "learn", "learner", "hook"), SPAWN),
    (("policy", "learn", "learner", "hook"), [PATHS[0], PATHS[1]]),
    (("policy", "learn", "learner", "hook"), {PATHS[1]: {}}),
    (("pipeline", "logger"), [{"type": PATHS[1]}]),
    (("env",), {"type": "gymnasium:trap_file:Trap-v0"}),
    (("env", "env_wrapper"), [PATHS[0]]),
    (("policy",), {"type": "random", "import_names": ["trap_file"]}),
    ((), {"env": "trap_file:Trap-v0", "policy": "dqn"}),
    (("pipeline",), {"type": "dist", "system": {"comm_learner": PATHS[1]}}),
    (("pipeline",), {"type": "dist", "system": {"comm_collector": PATHS[0]}}),
)


def planted(run: Path, plant: Plant, name: str = "config.json") -> None:
    """Writes a value into a file of a run, its config, and makes this process a new one."""
    record = json.loads((run / name).read_text())
    node, (at, value) = record, plant
    keys = ("config", *at) if name == "config.json" else at
    for key in keys[:-1]:
        node = node[key]
    node[keys[-1]] = value
    (run / name).write_text(json.dumps(record))
    code_paths._given.clear()
    code_paths._closed = False


def sample(config: Any, count: int) -> list[Plant]:
    return random.Random(0).sample(list(plants(config)), count)


# ---- what is made of a config


def build(run: str) -> None:
    """Builds what every command builds."""
    compiled = compile_config(run)
    spaces = spec_of(compiled.env, compiled.seed)
    compiled = bind(compiled, spaces)
    context = BuildContext(spaces)
    pipeline = compiled.pipeline.build(context)
    if hasattr(pipeline, "check"):
        pipeline.check(compiled)
    compiled.policy.build(context)


def springs_none(folder: Path, some: Iterable[Plant], sprung: list[str]) -> None:
    whole = (folder / "config.json").read_text()
    for plant in some:
        planted(folder, plant)
        with warnings.catch_warnings(action="ignore"), contextlib.suppress(DicoreError):
            build(str(folder))
        assert not sprung, plant
        (folder / "config.json").write_text(whole)


PRESETS = sorted(entry.name for entry in default().entries("preset") if entry.status == "ok")


def written(preset: str, folder: Path, *overrides: str) -> Any:
    """Writes the saved config of a preset; returns its tree."""
    compiled = compile_config(preset=preset, overrides=list(overrides))
    write_config(compiled, folder)
    return json.loads((folder / "config.json").read_text())["config"]


@pytest.mark.parametrize(
    ("preset", "pipeline"),
    [("cartpole_dqn", "serial"), ("cartpole_dqn", "dist"), ("pendulum_sac", "parallel")],
)
def test_no_value_of_a_saved_config_imports_anything(
    tmp_path: Path, sprung: list[str], preset: str, pipeline: str
) -> None:
    config = written(preset, tmp_path / "run", f"pipeline={pipeline}")
    springs_none(tmp_path / "run", [*KNOWN[:-2], *sample(config, 20)], sprung)


@pytest.mark.slow
@pytest.mark.parametrize("pipeline", ["serial", "dist", "parallel"])
def test_no_value_at_any_place_imports_anything(
    tmp_path: Path, sprung: list[str], pipeline: str
) -> None:
    config = written("cartpole_dqn", tmp_path / "run", f"pipeline={pipeline}")
    springs_none(tmp_path / "run", plants(config), sprung)


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_no_value_of_any_preset_imports_anything(
    tmp_path: Path, sprung: list[str], preset: str
) -> None:
    try:
        config = written(preset, tmp_path / "run")
        build(str(tmp_path / "run"))
    except DicoreError as error:
        pytest.skip(f"cannot be built here: {error}")
    springs_none(tmp_path / "run", sample(config, 500), sprung)


# ---- what opens a run


DOORS: dict[str, Callable[[str], Any]] = {
    "train --resume": lambda run: main(["train", "--resume", run, "--max-env-step", "32", "-q"]),
    "train --dry-run": lambda run: main(["train", run, "--dry-run"]),
    "train": lambda run: main(["train", run, "--exp-name", f"{run}-again", "-q"]),
    "ignore missing": lambda run: main(["train", "--resume", run, "--ignore-missing", "-q"]),
    "eval": lambda run: main(["eval", run, "-n", "1"]),
    "enjoy": lambda run: main(["enjoy", run, "-n", "1", "--show", "none"]),
    "collect": lambda run: main(["collect", run, "-n", "8", "-o", f"{run}.npz"]),
    "export": lambda run: main(["export", run, "-o", f"{run}.pt2"]),
    "config check": lambda run: main(["config", "check", run]),
    "config show": lambda run: main(["config", "show", run, "policy.nstep=2"]),
    "config diff": lambda run: main(["config", "diff", run, "cartpole_dqn"]),
    "report": lambda run: main(["report", run, "-o", f"{run}.html"]),
    "diagnose": lambda run: main(["diagnose", run]),
    "plan": lambda run: main(["plan", run, "--seconds", "0.5", "--no-changes"]),
    "plot": lambda run: main(["plot", run, "-o", f"{run}.png"]),
    "status": lambda run: main(["status", run]),
    "tune": lambda run: main(["tune", run, "policy.nstep=1|2", "-n", "1", "-o", f"{run}-study"]),
    "launch": lambda run: launch(resume=run, max_env_step=32),
    "Agent": lambda run: Agent("cartpole", "dqn").load(run).evaluate(1),
    "Agent.from_run": lambda run: Agent.from_run(run).train(8),
    "Session.agent": lambda run: Session(run).agent.evaluate(1),
}
READERS = ("report", "diagnose", "plot", "status", "config diff")
"""Doors that compile no config."""


def opened(door: str, run: Path) -> None:
    with contextlib.suppress(DicoreError, SystemExit):
        DOORS[door](str(run))


@pytest.mark.parametrize("door", DOORS)
def test_no_command_imports_what_a_run_names(
    run: Path, sprung: list[str], door: str, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = (run / "config.json").read_text()
    for plant in KNOWN[:1] if door in READERS else KNOWN[:-2] if door == "export" else KNOWN:
        planted(run, plant)
        opened(door, run)
        assert not sprung, plant
        assert not Path("out").exists(), plant
        (run / "config.json").write_text(whole)


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_no_command_imports_what_a_run_names_anywhere(
    run: Path, sprung: list[str], door: str, capfd: pytest.CaptureFixture[str]
) -> None:
    whole = (run / "config.json").read_text()
    for plant in sample(json.loads(whole)["config"], 200):
        planted(run, plant)
        opened(door, run)
        assert not sprung, plant
        (run / "config.json").write_text(whole)


# ---- runs of several processes


@pytest.fixture
def no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of `-m dist` looks for its part, and serves nobody."""

    def found(kind: str, system: Mapping[str, Any], *others: Any) -> None:
        default().resolve(f"comm_{kind}", system[f"comm_{kind}"])

    monkeypatch.setattr("dicore_dist.workers.serving.serve", found)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the processes of a run build is built in this one: there is no time to start them."""

    def in_processes(self: ParallelPipeline, compiled: Any, run: Any, model: Any = None) -> None:
        spec = cloudpickle.loads(cloudpickle.dumps(RoleSpec(compiled.cfg, state=None)))
        for role in (CollectorRole(spec), EvaluatorRole(spec)):
            role.close()
        spaces = spec_of(compiled.env, compiled.seed)
        LearnerRole(RoleSpec(compiled.cfg, state=spaces)).close()

    def by_tasks(self: DistPipeline, compiled: Any, run: Any, model: Any = None) -> None:
        system, index = compiled.pipeline.system, 0
        for kind, name in zip(("learner", "collector"), system.comm, strict=True):
            default().resolve(f"comm_{kind}", name)
        task = {"config": dumps(saved_tree(compiled)), "code": list(code_paths.state()[1])}
        parts = Parts(WorkerConfig.of(task, "collector", index).cfg)
        assert parts.collector
        assert parts.evaluator
        parts.close()

    monkeypatch.setattr(ParallelPipeline, "run", in_processes)
    monkeypatch.setattr(DistPipeline, "run", by_tasks)


def by_modules(run: str) -> None:
    """Writes the file of the processes of `-m dist`, and starts them, each as a new one."""
    if main(["-m", "dist", "--module", "config", "-c", run]):
        return
    for module in ("learner", "collector", "coordinator"):
        code_paths._given.clear()
        code_paths._closed = False
        main(["-m", "dist", "--module", module, "-c", f"{run}.pkl", "-q"])


ELSEWHERE: dict[str, Callable[[str], Any]] = {
    "train --resume": DOORS["train --resume"],
    "train": DOORS["train"],
    "ignore missing": DOORS["ignore missing"],
    "exist": lambda run: main(["train", run, "--exp-name", run, "--exist", "resume", "-q"]),
    "-m parallel": lambda run: main(["-m", "parallel", "-c", run, "--exp-name", f"{run}-p", "-q"]),
    "-m dist": lambda run: main(["-m", "dist", "-c", run, "--exp-name", f"{run}-d", "-q"]),
    "--module": by_modules,
    "eval": DOORS["eval"],
    "enjoy": DOORS["enjoy"],
    "collect": DOORS["collect"],
    "config check": DOORS["config check"],
    "Agent.from_run": DOORS["Agent.from_run"],
    "Session.agent": DOORS["Session.agent"],
}


SYSTEM = tuple(
    (("pipeline", "system", name), path)
    for name in ("comm_learner", "comm_collector", "commander", "address")
    for path in (PATHS[1], PATHS[6])
)


def of_processes(run: Path, pipeline: str) -> dict[str, Any]:
    """Makes a run one of another pipeline; returns its config."""
    options = [f"pipeline={pipeline}", *SMALL]
    config: dict[str, Any] = written("cartpole_dqn", run, *options, f"exp_name={run}")
    return config


def sprung_by(doors: Iterable[tuple[str, Plant]], run: Path, sprung: list[str]) -> list[Any]:
    """Opens a run by each door with a value planted; returns what sprang a trap."""
    whole, found = (run / "config.json").read_text(), []
    for door, plant in doors:
        planted(run, plant)
        with contextlib.suppress(DicoreError, SystemExit):
            ELSEWHERE[door](str(run))
        found += [(door, plant)] if sprung else []
        sprung.clear()
        (run / "config.json").write_text(whole)
    return found


@pytest.mark.usefixtures("here", "no_server")
@pytest.mark.parametrize("pipeline", ["parallel", "dist"])
def test_no_process_of_a_run_imports_what_it_names(
    run: Path, sprung: list[str], pipeline: str, capfd: pytest.CaptureFixture[str]
) -> None:
    config = of_processes(run, pipeline)
    places = (*(SYSTEM if pipeline == "dist" else SYSTEM[-2:]), *sample(config, len(ELSEWHERE)))
    doors = zip([*["--module"] * (len(places) - len(ELSEWHERE)), *ELSEWHERE], places, strict=True)
    assert sprung_by(doors, run, sprung) == []


@pytest.mark.slow
@pytest.mark.usefixtures("here", "no_server")
@pytest.mark.parametrize("door", ELSEWHERE)
@pytest.mark.parametrize("pipeline", ["parallel", "dist"])
def test_no_process_of_a_run_imports_what_it_names_anywhere(
    run: Path, sprung: list[str], pipeline: str, door: str, capfd: pytest.CaptureFixture[str]
) -> None:
    places = sample(of_processes(run, pipeline), 200)
    assert sprung_by([(door, each) for each in places], run, sprung) == []


def test_other_files_of_a_run_allow_no_path_of_its_config(
    run: Path, sprung: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """What stands in `run.json` is a stranger's too: it is never taken for a person's word."""
    whole = (run / "run.json").read_text()
    limits = [(("limits",), {name: value}) for name in ("max_env_step", "stop_value", "x")
              for value in (PATHS[1], [PATHS[1]], {PATHS[1]: 1})]  # fmt: skip
    some = random.Random(0).sample([*plants(json.loads(whole))], 20)
    for at, value in [*limits, *((at, value) for at, value in some if at)]:
        path = next(each for each in PATHS if each in json.dumps(value))
        planted(run, (at, value), "run.json")
        planted(run, (("policy", "learn", "learner", "hook"), {path: {}}))
        opened("train --resume", run)
        assert not sprung, (at, value)
        (run / "run.json").write_text(whole)


def test_a_limit_that_is_no_number_is_told(run: Path, capfd: pytest.CaptureFixture[str]) -> None:
    planted(run, (("limits", "max_env_step"), "many"), "run.json")
    assert main(["train", "--resume", str(run), "-q"]) == 2
    assert "pipeline.max_env_step: expected a number, got 'many' (" in capfd.readouterr().err


# ---- what a person allows


def test_what_a_person_types_beside_a_saved_config_runs(
    run: Path, sprung: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    (run.parent / "own_hook.py").write_text(
        "from dicore.interfaces.hook import ILearnerHook\n"
        "from dicore_plugins.hooks import *\n"
        "import sys; sys.sprung.append('own')\n"
    )
    for word in ("policy.learn.learner.hook=[./own_hook.py:X]", "env.type=./own_hook.py:X"):
        sys.modules.pop("own_hook", None)
        assert main(["config", "check", str(run), word]) == 2  # there is no X
        assert "own_hook.py' has no attribute 'X'" in capfd.readouterr().err
    assert "own" in sprung


def test_trust_runs_what_a_run_names(
    run: Path, sprung: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    planted(run, (("policy", "learn", "learner", "hook"), {PATHS[1]: {}}))
    assert main(["config", "check", str(run)]) == 2
    said = capfd.readouterr().err
    assert (
        f"policy.learn.learner.hook.{PATHS[1]}: '{PATHS[1]}' is a code path, and a saved config"
        in said
    )
    assert f"  hint: if you trust it: dicore config check {run} --trust\n" in said
    assert not sprung
    main(["config", "check", str(run), "--trust"])
    assert sprung


def test_a_saved_config_cannot_trust_another_run(
    run: Path, sprung: list[str], tmp_path: Path
) -> None:
    planted(run, (("env", "env_wrapper"), [PATHS[1]]))
    outer = tmp_path / "outer"
    expert = ["policy.type=expert", f"policy.run={run}", "policy.trust=true"]
    compiled = compile_config(overrides=["env=cartpole", *expert, *SMALL[:3], "env.stop_value=1"])
    write_config(compiled, outer)
    code_paths._given.clear()
    compiled = compile_config(str(outer))
    with pytest.raises(CodePathError, match=r"policy\.run"):
        compiled.policy.build(BuildContext())
    assert not sprung


def test_workers_of_environments_import_no_more(sprung: list[str]) -> None:
    """The rule goes with what is pickled for another process."""
    code_paths.allow(["mine:Env"])
    code_paths.close()
    context = BuildContext(seed=3)
    pickled = cloudpickle.dumps(context)
    code_paths._given.clear()
    code_paths._closed = False
    assert cloudpickle.loads(pickled) == context
    code_paths.check("mine:Env")
    with pytest.raises(CodePathError):
        code_paths.check("trap_file")


@pytest.mark.usefixtures("here", "no_server")
def test_trust_of_the_first_command_is_that_of_all_processes(
    run: Path, sprung: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    of_processes(run, "dist")
    planted(run, (("pipeline", "system", "comm_learner"), PATHS[6]))
    command = ["-m", "dist", "--module", "config", "-c", str(run)]
    for words, imported in ((command, []), ([*command, "--trust"], ["trap_file"])):
        assert main(words) == 0
        code_paths._given.clear()
        code_paths._closed = False
        main(["-m", "dist", "--module", "learner", "-c", f"{run}.pkl"])
        assert sprung[:1] == imported, capfd.readouterr().err


def test_a_worker_of_dist_names_what_the_coordinator_was_given(
    tmp_path: Path, sprung: list[str]
) -> None:
    config = written("cartpole_dqn", tmp_path / "run")
    config["env"]["env_wrapper"] = [PATHS[1]]
    with pytest.raises(ConfigError, match="is a code path"):
        WorkerConfig.of({"config": json.dumps(config)})
    assert not sprung
    with pytest.raises(DicoreError):  # it is no wrapper
        WorkerConfig.of({"config": json.dumps(config), "code": [PATHS[1]]})
    assert sprung


def test_a_compiled_config_remembers_where_it_came_from(run: Path) -> None:
    compiled = compile_config(str(run))
    assert compiled.saved
    assert compile_config(compiled).saved
    assert not compile_config(str(run), names_only=False).saved


def test_a_saved_config_chooses_no_command_of_an_alert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", "touch ran")
    alert = AlertLogger(variable="PAGER")
    code_paths.close()
    with pytest.raises(CodePathError, match="'PAGER' is a code path"):
        alert.open(LogTarget(tmp_path))


def test_a_ray_cluster_of_a_saved_config_is_not_joined() -> None:
    code_paths.close()
    with pytest.raises(CodePathError, match=r"pipeline\.system\.address"):
        check_address("127.0.0.1:1")


def test_a_saved_config_reads_no_variable_that_nobody_named(
    run: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SECRET_OF_A_PERSON", "hush-hush")
    text = "runs/${env:SECRET_OF_A_PERSON}"
    whole = (run / "config.json").read_text()
    for place in (("exp_name",), ("policy", "other", "eps", "type")):
        planted(run, (place, text))
        assert main(["config", "check", str(run)]) == 2
        said = capfd.readouterr()
        assert "reads an environment variable, and a saved config may be a stranger's" in said.err
        assert f"  hint: if you trust it: dicore config check {run} --trust\n" in said.err
        assert "hush" not in said.err + said.out
        (run / "config.json").write_text(whole)
    planted(run, (("exp_name",), text))
    assert main(["config", "check", str(run), "--trust"]) == 0
    planted(run, (("exp_name",), text))
    assert main(["config", "check", str(run), f"exp_name={text}"]) == 0


def test_a_saved_config_does_not_choose_who_hears_of_the_run() -> None:
    code_paths.close()
    assert MlflowLogger()
    with pytest.raises(CodePathError, match=r"pipeline\.logger\.tracking_uri"):
        MlflowLogger(tracking_uri="http://127.0.0.1:1")
    system = ["pipeline.system.operator=127.0.0.1:1"]
    compiled = compile_config(preset="cartpole_dqn", overrides=["pipeline=dist", *system])
    pipeline = compiled.pipeline.build(BuildContext())
    pipeline.check(compiled)  # a person typed it
    code_paths._given.clear()
    with pytest.raises(CodePathError, match=r"pipeline\.system\.operator"):
        pipeline.check(compiled)
