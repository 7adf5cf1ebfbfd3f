"""Launch: from a request to a run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from dicore.cli.train import Announcer
from dicore.console import number
from dicore.errors import ConfigError, DicoreError, EnvCreateError, UsageError
from dicore.run.checkpoint_store import CheckpointStore
from dicore.run.launch import TrainRequest, compile_request, launch
from dicore.run.run import Limits, Run
from tests.core.run.launch_parts import NAMES, PARTS, Manager, Mute, config

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("toys")


def record(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return content


# ---- what a request compiles to


def test_names_take_the_preset_and_the_command_line_is_above() -> None:
    request = TrainRequest(
        **NAMES, seed=4, exp_name="123", max_env_step=50, overrides=["policy.nstep=5"]
    )
    compiled = compile_request(request)
    assert compiled.env.stop_value == 475.0
    assert compiled.policy.nstep == 5
    assert compiled.seed == 4
    assert compiled.exp_name == "123"
    assert compiled.pipeline.max_env_step == 50
    assert compiled.origin["env.stop_value"].startswith("preset")
    assert compile_request(TrainRequest(**NAMES)).policy.nstep == 3
    dashed = TrainRequest(env="launch-env", policy="launch-policy")
    assert compile_request(dashed).policy.nstep == 3


def test_a_preset_is_asked_for_by_its_own_name() -> None:
    compiled = compile_request(
        TrainRequest(config="launch_env_launch_policy", overrides=["policy.nstep=4"])
    )
    assert (compiled.env.type, compiled.policy.nstep) == ("launch_env", 4)


def test_what_nobody_says_is_assumed_for_names_only() -> None:
    """Ten episodes, no stop value; the env's own description comes first."""
    overrides = [json.dumps(PARTS)]
    by_name = TrainRequest(env="launch_spec", policy="launch_policy", overrides=overrides)
    compiled = compile_request(by_name)
    assert compiled.env.n_evaluator_episode == 10
    assert compiled.env.stop_value == 195.0
    without_preset = {"env": "local/launch_env", "policy": "launch_policy"}
    silent = compile_request(TrainRequest(**without_preset, overrides=overrides))
    assert silent.env.n_evaluator_episode == 10
    assert silent.env.stop_value == float("inf")

    incomplete = config()
    del incomplete["env"]["n_evaluator_episode"]
    with pytest.raises(ConfigError, match=r"env\.n_evaluator_episode"):
        compile_request(TrainRequest(config=incomplete))
    wrong = TrainRequest(env="launch_spec", policy="launch_policy", overrides=["nonsense=1"])
    with pytest.raises(ConfigError, match="nonsense"):
        compile_request(wrong)


def test_names_beside_a_file_replace_what_it_names() -> None:
    Path("c.json").write_text(json.dumps(config()))
    compiled = compile_request(
        TrainRequest(
            config="c.json", env="launch_spec", overrides=["env.manager=launch_manager"],
        )
    )  # fmt: skip
    assert compiled.env.type == "launch_spec"
    assert compiled.policy.nstep == 1, "no preset below a file"


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        (TrainRequest(), "nothing to train: no config"),
        (TrainRequest(env="launch_env"), "nothing to train: no config"),
        (TrainRequest(config="missing.py"), r"missing\.py: no such config file, run or preset"),
    ],
)
def test_a_request_that_says_too_little_says_what_is_missing(
    request_: TrainRequest, text: str
) -> None:
    with pytest.raises(UsageError, match=text):
        compile_request(request_)


# ---- the run


def test_a_training_leaves_its_folder_behind(tmp_path: Path) -> None:
    outcome = launch(config(), seed=5, mode="launch_pipeline", argv=["x", "y"])
    folder = tmp_path / "runs/launch_env_launch_policy_s5"
    assert outcome.run.folder.path.absolute() == folder
    assert outcome.exit_code == 0
    assert {path.name for path in folder.iterdir()} >= {"config.json", "run.json", "ckpt", "log"}
    written = record(folder)
    assert written["status"] == "done"
    assert written["argv"] == ["x", "y"]
    assert written["seed"] == 5
    assert written["components"]["policy"]["type"] == "launch_policy"
    assert set(written["components"]["policy"]) >= {"type", "dist", "version", "target"}
    assert written["result"]["best_return"] == 5.0
    assert written["result"]["stop"] is False
    bound = outcome.policy
    assert bound.policy.model.obs_shape == "flat"
    again = launch(config(), seed=5)
    assert again.run.folder.path.name == "launch_env_launch_policy_s5-1"
    assert launch(config(), model="my net").policy == "my net"


def test_the_config_of_a_run_trains_the_same_again(tmp_path: Path) -> None:
    first = launch(config(), exp_name="x").run
    second = launch(str(first.folder.config), exp_name="y").run
    one, two = (json.loads(run.folder.config.read_text())["config"] for run in (first, second))
    assert {**one, "exp_name": ""} == {**two, "exp_name": ""}


def test_wrappers_are_around_the_env_whose_spaces_count() -> None:
    wrapped = config()
    wrapped["env"]["env_wrapper"] = ["launch_wrapper", "launch_wrapper"]
    before = Manager.closed
    bound = launch(wrapped).policy
    assert bound.policy.model.obs_shape == "wrapped wrapped flat"
    assert Manager.closed == before + 1


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (["policy.nstepp=3"], ConfigError),
        (["policy.misfit=true"], ConfigError),
        (["env.env_id=broken"], EnvCreateError),
        (["pipeline.logger=[no_such]"], ConfigError),
    ],
)
def test_bad_input_makes_no_folder(
    tmp_path: Path, change: list[str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        launch(config(), overrides=change)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("act", "error", "recorded"),
    [
        ("fail", RuntimeError, "RuntimeError: lost the thread"),
        ("exit", DicoreError, "SystemExit: 0"),
        ("mute", Mute, "Mute"),
    ],
)
def test_a_failure_is_on_record_and_goes_on_up(
    act: str, error: type[Exception], recorded: str
) -> None:
    """R-A08: `sys.exit` in a component is a failure; I12: the parts so far are saved."""
    with pytest.raises(error) as caught:
        launch(config(exp_name="x"), overrides=[f"pipeline.act={act}"])
    if act == "exit":
        assert "sys.exit(0) was called in Pipeline.run" in str(caught.value)
        assert caught.value.exit_code == 1
    written = record(Path("x"))
    assert (written["status"], written["error"]) == ("failed", recorded)
    store = CheckpointStore("x/ckpt")
    assert store.load("exception")["learner"] == {"policy": {"value": 3}}
    assert store.metadata("exception")["train_iter"] == 7
    assert store.resumable() is None, "its last step was not finished"


def test_a_component_may_change_the_working_folder(tmp_path: Path) -> None:
    """R-F08: everything lands in the run's folder, and later runs in the folder of the start."""
    launch(config(exp_name="x"), overrides=["pipeline.act=move"])
    assert Path.cwd() == tmp_path
    assert record(Path("x"))["status"] == "done"
    assert (tmp_path / "x/ckpt/best").is_dir()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_deleted_working_folder_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-G01."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(UsageError, match="working folder was deleted"):
        launch(config())


def test_a_run_that_is_interrupted_before_its_first_step_is_closed() -> None:
    class Impatient(Announcer):
        def started(self, *_: object) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        launch(config(exp_name="x"), observer=Impatient())
    assert record(Path("x"))["status"] == "failed"
    assert not Path("x/.lock").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a CUDA device")
def test_a_device_that_is_not_there_is_an_error_before_there_is_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"policy\.cuda: no CUDA device"):
        launch(config(), overrides=["policy.cuda=true"])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("act", "code"), [("signal", 143), ("two signals", 130)])
def test_signals_end_a_training_and_give_the_exit_code(act: str, code: int) -> None:
    before = signal.getsignal(signal.SIGTERM)
    outcome = launch(config(exp_name="x"), overrides=[f"pipeline.act={act}"])
    assert outcome.exit_code == code
    assert (outcome.policy is None) == (act == "two signals")
    assert record(Path("x"))["status"] == "interrupted"
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_training_runs_in_a_thread_too() -> None:
    """R-C05."""
    outcomes: list[Any] = []
    thread = threading.Thread(target=lambda: outcomes.append(launch(config())))
    thread.start()
    thread.join(30)
    assert outcomes[0].exit_code == 0


def test_a_second_training_at_the_same_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither could be repeated; nothing is made, and the first one goes on undisturbed."""
    refused: list[str] = []

    def second(self: Any) -> None:
        with pytest.raises(UsageError, match="another training runs in this process") as told:
            launch(config(exp_name="y"))
        refused.append(told.value.hint)

    monkeypatch.setattr("dicore.run.run.Run.start", _before(Run.start, second))
    thread = threading.Thread(target=launch, args=(config(exp_name="x"),))
    thread.start()
    thread.join(30)
    assert "multiprocessing" in refused[0]
    assert record(Path("x"))["status"] == "done"
    assert not Path("y").exists()


def _before(function: Any, first: Any) -> Any:
    def both(self: Any) -> None:
        first(self)
        function(self)

    return both


def test_a_failed_training_lets_the_next_one_begin() -> None:
    with pytest.raises(ConfigError):
        launch(config(), overrides=["pipeline.max_env_step=-1"])
    assert launch(config()).exit_code == 0


def test_to_resume_what_is_not_there_is_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    """R-C14: said in one line; a folder of that name is given as a path."""
    launch(config(exp_name="x"), resume="auto", observer=Announcer())
    begun, said, *_ = capsys.readouterr().out.splitlines()
    assert begun.endswith(", in x")
    assert said == "no checkpoint to resume from: training starts from scratch"
    with pytest.raises(UsageError, match="auto: no such folder"):
        launch(resume="./auto")


@pytest.mark.parametrize("installed", [True, False])
def test_a_process_of_its_own_says_where_things_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, installed: bool
) -> None:
    """The folder, a numbered sibling here, stands in the first line and in the last."""
    Path("x").mkdir()
    monkeypatch.setattr("dicore.cli.train.is_command", lambda word: installed)
    launch(
        config(exp_name="x"),
        overrides=["pipeline.act=solve"],
        own_process=True,
        observer=Announcer(),
    )
    first, until, *between, last = capsys.readouterr().out.splitlines()
    assert first == "training launch_policy on launch_env, seed 0, in x-1"
    assert until.startswith("no budget: training runs until a mean return of 1.0, or Ctrl-C")
    assert last == "folder:     x-1"
    if installed:
        assert between.pop(0) == "watch:      dicore watch x-1"
    assert "stop value reached: best mean return 5.0 after 9 env steps, 7 updates" in between[0]
    assert between[1] == "curve:      dicore plot x-1 --text   (numbers: x-1/log/metrics.jsonl)"
    assert between[2:] == ["config:     x-1/config.json", "checkpoint: x-1/ckpt/best"]
    launch(config(exp_name="x"))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("limit", "ends"),
    [({}, False), ({"max_env_step": 0}, True), ({"max_train_iter": 5}, True),
     ({"stop_value": 3.0}, True), ({"stop_value": float("inf")}, False)],
)  # fmt: skip
def test_a_training_without_an_end_says_so(limit: dict[str, float], ends: bool) -> None:
    assert Limits(**limit).ends is ends  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "text"),
    [(500.0, "500.0"), (12.34, "12.3"), (-0.876, "-0.88"), (2.0, "2.0"), (0.5, "0.5"),
     (float("inf"), "inf"), (float("nan"), "nan"), (-1234.56, "-1234.6")],
)  # fmt: skip
def test_returns_are_written_with_the_decimals_that_tell_them_apart(
    value: float, text: str
) -> None:
    assert number(value) == text


def test_what_parts_log_reads_like_a_warning_of_the_command() -> None:
    code = (
        "import logging; from dicore.console import own_process; own_process();"
        "logging.getLogger('acme').warning('a step took %d s', 3);"
        "logging.getLogger('acme').info('nobody asked')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "warning: a step took 3 s\n"
