"""A measurement in a process of its own: its figures, and that nothing is left of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from dicore.run.launch import TrainRequest
from dicore.run.signals import StopFlag
from dicore_tools.planning import trial as trial_module
from dicore_tools.planning.trial import COLLECTORS, PARTS, Trial, measure
from tests.tools.conftest import SMALL


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def measured(folder: Path, *overrides: str, flag: StopFlag | None = None) -> Trial:
    request = TrainRequest(
        env="cartpole", policy="dqn", overrides=[*SMALL, *overrides], max_env_step=10**9
    )
    flag = flag or StopFlag()
    return measure(request, {}, seconds=0.5, folder=folder / "run", flag=flag)


def test_rates_memory_and_samples_are_measured(tmp_path: Path) -> None:
    before = {each.pid for each in children()}
    trial = measured(tmp_path, f"exp_name={tmp_path / 'elsewhere'}")  # is not where it trains
    assert trial.problem == ""
    assert not (tmp_path / "elsewhere").exists()
    assert trial.env_steps > 0
    assert trial.updates > 0
    assert sum(trial.parts.values()) == pytest.approx(trial.seconds)
    assert all(trial.share(part) >= 0 for part in PARTS)
    assert trial.share("environments") > 0
    assert trial.memory[0] > 1 << 20
    assert trial.sample_bytes > 2 * 4 * 4  # two observations of four numbers
    left = [" ".join(each.cmdline()) for each in children() if each.pid not in before]
    of_tests = ("tracker", "warm.py")  # which begin with the first child
    assert [each for each in left if not any(name in each for name in of_tests)] == []


def test_random_steps_before_the_first_update_are_no_rate(tmp_path: Path) -> None:
    rows = [
        {"path": ["StepCollector"], "seconds": 4.0},
        {"path": ["StepCollector", "env step"], "seconds": 3.0},
        {"path": ["OffPolicyLearner"], "seconds": 6.0},
    ]
    (tmp_path / "log").mkdir()
    told = {"rows": rows, "env_step": 300, "train_iter": 200}
    (tmp_path / "log/profile.json").write_text(json.dumps(told))
    config = {"config": {"policy": {"collect": {"random_collect_size": 100}}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    trial = trial_module._read(tmp_path, {}, (1,))
    assert (trial.env_steps, trial.updates) == (200, 200)
    assert trial.seconds == pytest.approx(10.0 - trial.parts["environments"] / 2)


def test_a_training_that_fails_says_why(tmp_path: Path) -> None:
    trial = measured(tmp_path, "env.make_kwargs={'nothing': 1}")
    assert "nothing" in trial.problem


def test_a_stop_ends_the_measurement(tmp_path: Path) -> None:
    flag = StopFlag()
    flag.request(signal.SIGINT)
    assert measured(tmp_path, flag=flag).problem == "stopped"


@pytest.mark.skipif(sys.platform == "win32", reason="it has no SIGINT for a process")
def test_ctrl_c_leaves_neither_processes_nor_folders(tmp_path: Path) -> None:
    command = [
        sys.executable, "-c", "from dicore.cli import main; raise SystemExit(main())", "plan",
        "-e", "cartpole", "-p", "dqn",
        "--seconds", "60", "env.manager.type=sync_subprocess",
    ]  # fmt: skip
    with subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        inside = psutil.Process(process.pid)
        while not list(tmp_path.glob("dicore-plan-*/0/run.json")):
            assert process.poll() is None, process.stdout and process.stdout.read()
            time.sleep(0.05)
        started = inside.children(recursive=True)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert psutil.wait_procs(started, timeout=30)[1] == []
    assert list(tmp_path.glob("dicore-plan-*")) == []


def test_rates_of_collectors_are_those_after_their_start(tmp_path: Path) -> None:
    rows = [(0, 0, 9.0), (500, 100, 10.0), (1_500, 300, 12.0)]  # they begin for nine seconds
    lines = [
        json.dumps({"step": step, "train_iter": updates, "time": at, "learner/total_loss": 1.0})
        for step, updates, at in rows[1:]
    ]
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    trial = trial_module._read(tmp_path, {COLLECTORS: 2}, (1,))
    assert (trial.env_steps_per_s, trial.updates_per_s) == (500, 100)
    (tmp_path / "log" / "metrics.jsonl").write_text(lines[0] + "\n")
    assert "raise --seconds" in trial_module._read(tmp_path, {COLLECTORS: 2}, (1,)).problem
    (tmp_path / "log" / "metrics.jsonl").unlink()
    assert "raise --seconds" in trial_module._read(tmp_path, {COLLECTORS: 2}, (1,)).problem
    assert "cannot be timed" in trial_module._read(tmp_path, {}, (1,)).problem
