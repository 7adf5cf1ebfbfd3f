"""`dicore train -s 0 -s 1 -s 2`: a run each, the same as alone, and a summary; clean ends."""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_plugins")
pytest.importorskip("dicore_contrib_envs")

from dicore.cli import main
from dicore.console import number
from dicore.errors import DicoreError, UsageError
from dicore.run.launch import TrainRequest, launch
from dicore.run.log import read_metrics
from dicore_tools.multi_seed.series import run_series
from tests import warm
from tests.registry.environment import MAIN

NAMES = ["-e", "cartpole", "-p", "dqn"]
QUICK = ["policy.learn.update_per_collect=16", "policy.learn.batch_size=16"]
SMALL = [
    *QUICK, "policy.eval.evaluator.eval_freq=16", "policy.eval.evaluator.n_episode=5",
    "env.evaluator_env_num=5", "env.stop_value=60",
]  # fmt: skip


def read(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(file.read_text())
    return content


def curve(folder: Path | str) -> list[tuple[int, float]]:
    tag = "evaluator/return_mean"
    lines = read_metrics(Path(folder) / "log/metrics.jsonl")
    return [(line["step"], line[tag]) for line in lines if tag in line]


pytestmark = pytest.mark.usefixtures("here")


def test_each_seed_is_a_run_of_its_own(capfd: pytest.CaptureFixture[str]) -> None:
    """K19, H13: the summary is what the runs' results come to, by another way of counting."""
    words = [*NAMES, "--max-env-step", "900", *SMALL]
    assert main(["train", *words, "-s", "2", "-s", "0", "-s", "1"]) == 0
    said = capfd.readouterr().out
    folders = [Path(f"runs/cartpole_dqn_s{seed}") for seed in (2, 0, 1)]
    records = [read(folder / "run.json") for folder in folders]
    assert [record["seed"] for record in records] == [2, 0, 1]
    assert len({tuple(curve(folder)) for folder in folders}) == 3
    summary = read(Path("runs/cartpole_dqn_summary.json"))
    assert summary["seeds"] == [2, 0, 1]
    assert [run["folder"] for run in summary["runs"]] == [str(folder) for folder in folders]
    assert [run["result"] for run in summary["runs"]] == [record["result"] for record in records]
    for name in ("best_return", "env_step", "train_iter", "wall_s"):
        values = [record["result"][name] for record in records]
        found = summary["summary"][name]
        assert found["median"] == sorted(values)[1]
        assert found["mean"] == pytest.approx(sum(values) / 3)
        assert found["std"] == pytest.approx(statistics.stdev(values))
        assert (found["min"], found["max"]) == (min(values), max(values))
    solved = sum(record["result"]["stop"] for record in records)
    assert summary["solved"] == solved
    *_, last = said.splitlines()
    assert f"solved {solved} of 3" in last
    assert f"median {number(summary['summary']['best_return']['median'])}" in last
    for folder in folders:
        assert f"in {folder}" in said


def test_another_measure_has_its_name(capfd: pytest.CaptureFixture[str]) -> None:
    """Win rates are neither called returns nor compared with the stop value of returns."""
    words = ["-e", "bit_flip", "-p", "dqn", "--max-env-step", "150", *QUICK[1:]]
    words += ["policy.eval.evaluator.measure=win_rate", "env.n_bits=2"]
    assert main(["train", *words]) == 2
    assert "env.stop_value: -0.63" in (told := capfd.readouterr().err)
    assert "is a return, from env spec, and the measure is win_rate" in told
    words += ["env.stop_value=inf", "--exp-name", "x"]
    assert main(["train", *words, "-s", "0", "-s", "1"]) == 0
    said = capfd.readouterr().out
    assert "BEST WIN RATE" in said
    assert "best mean win rate of 2 seeds: median 0." in said
    assert read(Path("x/summary.json"))["measure"] == "win_rate"
    assert main(["eval", "x/seed_0", "-n", "4", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    won = sum(each > -2 for each in found["returns"]) / 4
    assert found["measured"] == {"win_rate": won}
    assert main(["eval", "x/seed_0", "-n", "4"]) == 0
    assert capfd.readouterr().out.startswith(f"win rate {won:.4g}, mean return ")
    assert main(["report", "x", "-o", "x.html"]) == 0
    assert "(win rate 0." in Path("x.html").read_text()


def test_runs_of_a_series_are_as_alone(capfd: pytest.CaptureFixture[str]) -> None:
    """In turn, in processes, alone: the same numbers, bit by bit."""
    words = [*NAMES, "--max-env-step", "700", *SMALL, "env.stop_value=inf", "-q"]
    both = ["-s", "3", "-s", "4"]
    assert main(["train", *words, *both, "--exp-name", "turn"]) == 0
    out = capfd.readouterr().out
    assert len(out.splitlines()) == 1, out
    assert main(["train", *words, *both, "--exp-name", "apart", "--jobs", "2"]) == 0
    assert main(["train", *words, "-s", "4", "--exp-name", "alone"]) == 0
    for seed in (3, 4):
        assert curve(f"turn/seed_{seed}") == curve(f"apart/seed_{seed}")
    assert len(curve("alone")) >= 3
    assert curve("turn/seed_4") == curve("alone")
    assert read(Path("turn/summary.json"))["seeds"] == [3, 4]
    runs = [read(Path(f"{place}/summary.json"))["runs"] for place in ("turn", "apart")]
    for one, other in zip(*runs, strict=True):
        for run in (one, other):
            del run["folder"], run["result"]["wall_s"], run["result"]["cpu_s"]
        assert one == other


def test_wrong_seeds_begin_nothing(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["train", *NAMES, "-s", "1", "-s", "1"]) == 2
    assert main(["train", *NAMES, "-s", "1", "-s", "2", "policy.lern.x=1"]) == 2
    assert "policy.lern" in capfd.readouterr().err
    with pytest.raises(UsageError, match="cannot resume"):
        run_series(TrainRequest(resume="x"), [1, 2])
    with pytest.raises(UsageError, match="no seeds"):
        run_series(TrainRequest(env="cartpole", policy="dqn"), [])
    assert not list(here.iterdir())


def test_a_run_that_fails_leaves_the_others_alone(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def failing(request: TrainRequest, observer: Any) -> Any:
        if request.seed == 1:
            raise OSError("the disk is tired")
        return launch(request, observer=observer)

    monkeypatch.setattr("dicore_tools.multi_seed.series.launch", failing)
    words = ["train", *NAMES, "--max-env-step", "300", *SMALL, "env.stop_value=inf"]
    words += ["--exp-name", "x"]
    assert main([*words, *(f"-s{seed}" for seed in range(3))]) == 1
    runs = read(here / "x/summary.json")["runs"]
    assert [run["status"] for run in runs] == ["done", "failed", "done"]
    assert "the disk is tired" in runs[1]["error"]
    out = capfd.readouterr().out
    assert "seed 1: OSError: the disk is tired" in out
    assert "solved 0 of 3" in out


def test_a_summary_is_not_lost_to_the_next(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dicore_tools.multi_seed.series.launch", lambda request, **_: 1 / 0)
    first = TrainRequest(env="cartpole", policy="dqn", exp_name="x")
    files = [run_series(first, seeds).file for seeds in ([1], [2], [3])]
    names = ["summary.json", "summary-1.json", "summary-2.json"]
    assert [file.name for file in files] == names
    assert [read(here / "x" / name)["seeds"] for name in names] == [[1], [2], [3]]
    assert run_series(replace(first, exist="error"), [4]).file.name == "summary-3.json"
    assert run_series(replace(first, exist="overwrite"), [5]).file.name == "summary.json"
    assert read(here / "x/summary.json")["seeds"] == [5]


def test_failures_in_processes_are_told(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A run folder that cannot be made is found in the process alone."""
    (here / "x").mkdir()
    (here / "x/seed_1").write_text("in the way")
    words = ["train", *NAMES, "--max-env-step", "300", *SMALL, "--exp-name", "x"]
    assert main([*words, "--exist", "error", "-s0", "-s1", "--jobs", "2"]) == 2
    runs = read(here / "x/summary.json")["runs"]
    assert [run["status"] for run in runs] == ["done", "failed"]
    assert "seed_1" in runs[1]["error"]
    said = capfd.readouterr().out.splitlines()
    assert said[0] == "training 2 seeds (0, 1), 2 in parallel"
    steps = runs[0]["result"]["env_step"]
    assert any(line.startswith(f"seed 0: {steps}/300 env steps") for line in said)


def test_the_function_takes_several_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    from dicore_contrib_envs.presets import CARTPOLE_DQN
    from dicore_plugins.pipelines import serial_pipeline

    given: dict[str, Any] = {"max_env_step": 300, "overrides": SMALL}
    policies = serial_pipeline(CARTPOLE_DQN, seed=[5, 6], exp_name="both", **given)
    alone = serial_pipeline(CARTPOLE_DQN, seed=6, exp_name="alone", **given)
    states = [policy.eval_mode.state_dict()["model"] for policy in (*policies, alone)]
    first, second, third = ([value.tolist() for value in state.values()] for state in states)
    assert second == third != first
    assert read(Path("both/summary.json"))["seeds"] == [5, 6]
    with pytest.raises(UsageError, match="one model cannot be trained with several seeds"):
        serial_pipeline(CARTPOLE_DQN, seed=[5, 6], model=alone)
    monkeypatch.setattr("dicore_tools.multi_seed.series.launch", lambda request, **_: 1 / 0)
    with pytest.raises(DicoreError, match="seed 6: ZeroDivisionError"):
        serial_pipeline(CARTPOLE_DQN, seed=[5, 6], exp_name="both", **given)


@pytest.fixture
def endless(here: Path) -> Any:
    """Two trainings without end, in processes that have begun to train."""
    words = [*NAMES, "-s", "0", "-s", "1", "--jobs", "2", "--exp-name", "x"]
    more = [*QUICK, "env.stop_value=inf", "policy.eval.evaluator.eval_freq=1000000"]
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, "train", *words, *more],
        cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env={**os.environ, warm.NESTED: "1"},
    )  # fmt: skip
    try:
        _until(lambda: all(_trains(here / f"x/seed_{seed}") for seed in (0, 1)))
        yield process, psutil.Process(process.pid).children(recursive=True)
    finally:
        for each in [*psutil.Process(os.getpid()).children(recursive=True)]:
            if each.pid == process.pid:
                each.kill()
        process.communicate()


def _trains(folder: Path) -> bool:
    file = folder / "log/metrics.jsonl"
    return file.is_file() and "learner/" in file.read_text()


def _until(condition: Any, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to this"
        time.sleep(0.05)


def _ended(children: list[psutil.Process]) -> bool:
    return not any(
        child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children
    )


def assert_saved(here: Path) -> None:
    for seed in (0, 1):
        assert read(here / f"x/seed_{seed}/run.json")["status"] == "interrupted"
        assert (here / f"x/seed_{seed}/ckpt/final/manifest.json").is_file()


def test_ctrl_c_saves_and_ends_all(here: Path, endless: Any) -> None:
    """As a terminal does it: the signal goes to the whole group."""
    process, children = endless
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=500)
    assert process.returncode == 130
    assert "Traceback" not in err
    _until(lambda: _ended(children))
    summary = read(here / "x/summary.json")
    assert [run["status"] for run in summary["runs"]] == ["interrupted"] * 2
    assert "solved 0 of 2" in out
    assert_saved(here)


def test_runs_end_when_their_parent_is_killed(here: Path, endless: Any) -> None:
    process, children = endless
    process.kill()
    _until(lambda: _ended(children))
    assert process.communicate()[1] == ""
    assert_saved(here)
