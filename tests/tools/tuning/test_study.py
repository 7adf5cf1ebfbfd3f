"""`dicore tune`: each trial is a training; a study goes on, prunes, and ends in a config."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("optuna") is None:  # half a second, for each process that collects tests
    pytest.skip("optuna is not installed", allow_module_level=True)
pytest.importorskip("dicore_plugins")
pytest.importorskip("dicore_contrib_envs")

from dicore.cli import main
from dicore.config import compile_config
from dicore.errors import UsageError
from dicore.run.folder import RunLock
from dicore.run.launch import TrainRequest
from dicore_tools.tuning.results import found, importances
from dicore_tools.tuning.space import parse_space
from dicore_tools.tuning.study import Plan, _storage, _Trial, load, tune
from tests.registry.environment import MAIN

SMALL = [
    "policy.eval.evaluator.eval_freq=20", "policy.eval.evaluator.n_episode=2",
    "env.evaluator_env_num=2", "env.collector_env_num=2", "policy.collect.n_sample=20",
    "policy.learn.update_per_collect=2", "policy.collect.random_collect_size=40",
    "policy.learn.batch_size=16", "policy.other.replay_buffer.replay_buffer_size=500",
]  # fmt: skip
RATE = "policy.learn.learning_rate=log(1e-5,1e-2)"

pytestmark = pytest.mark.usefixtures("here")


def plan(**given: Any) -> Plan:
    request = TrainRequest(
        config="cartpole_dqn", overrides=["pipeline.logger=[]", *SMALL],
        max_env_step=given.pop("max_env_step", 200), argv=(),
    )  # fmt: skip
    space = parse_space(given.pop("space", [RATE]))
    return Plan(request=request, space=space, folder=Path("study"), **given)


def last_return(run: Path) -> float:
    lines = map(json.loads, (run / "log/metrics.jsonl").read_text().splitlines())
    return [line["evaluator/return_mean"] for line in lines if "evaluator/return_mean" in line][-1]


def test_from_the_command_line_to_the_best_config(capfd: pytest.CaptureFixture[str]) -> None:
    words = ["cartpole_dqn", *SMALL, "--max-env-step", "200", "-o", "study", "--seeds", "2"]
    space = [RATE, "--space", "policy.nstep=1|3"]
    assert main(["tune", *words, *space, "-n", "2"]) == 0
    said = capfd.readouterr().out
    assert "trial 1:" in said
    assert "dicore train study/best.yaml" in said
    rows = found(load(Path("study")))
    assert [len(list(Path(f"study/trial_{row.number:04d}").iterdir())) for row in rows] == [2, 2]
    for row in rows:
        returns = [last_return(run) for run in Path(f"study/trial_{row.number:04d}").iterdir()]
        assert row.score == pytest.approx(sum(returns) / 2)
    assert rows[0].score >= rows[1].score
    assert Path("study/best.yaml").read_text().startswith("# yaml-language-server: $schema=dicore")
    assert Path("study/dicore.schema.json").is_file()
    best = compile_config("study/best.yaml")
    assert best.policy.learn.learning_rate == rows[0].values["policy.learn.learning_rate"]
    assert best.policy.nstep == rows[0].values["policy.nstep"]
    assert best.exp_name is None
    assert Path("study/trials.png").stat().st_size > 5000
    assert main(["tune", "-o", "study", "--show"]) == 0
    assert "learning_rate" in capfd.readouterr().out


def test_a_study_goes_on_and_keeps_its_space() -> None:
    tune(plan(trials=1))
    log = Path("study/study.log")
    log.write_text(f'{log.read_text()}{{"op_code":5,"trial')  # a killed process began a line
    study = tune(plan(trials=2))
    assert len({row.values["policy.learn.learning_rate"] for row in found(study)}) == 2
    with pytest.raises(Exception, match="another seed: 0, not 4"):
        tune(plan(trials=3, first_seed=4))
    with pytest.raises(Exception, match="another space"):
        tune(plan(trials=3, space=["policy.nstep=1|3"]))
    with pytest.raises(Exception, match=r"another pipeline.max_env_step: 200, not 900"):
        tune(plan(trials=3, max_env_step=900))
    lock = RunLock(Path("study"))
    with pytest.raises(Exception, match="another process runs this study"):
        tune(plan(trials=3))
    lock.release()
    log.write_text(f"{log.read_text()}damaged{{\n")
    with pytest.raises(UsageError, match=r"study/study\.log: not the log of a study of dicore"):
        tune(plan(trials=3))


def test_a_trial_that_others_made_superfluous_is_given_up() -> None:
    study = tune(plan(trials=1))
    one_more = _Trial(study, plan(trials=1))
    assert one_more.is_surplus()
    assert study.trials[1].state.name == "FAIL"
    assert len(found(study)) == 1
    assert not _Trial(study, plan(trials=2)).is_surplus()


def test_the_same_seed_gives_the_same_study() -> None:
    first = [(row.values, row.score) for row in found(tune(plan(trials=2)))]
    Path("study").rename("other")
    assert [(row.values, row.score) for row in found(tune(plan(trials=2)))] == first


def test_a_grid_is_tried_once() -> None:
    space = ["policy.nstep=1|2", "policy.learn.double=true|false"]
    rows = found(tune(plan(space=space, grid=True, max_env_step=60)))
    points = sorted(tuple(row.values.values()) for row in rows)
    assert points == [(1, False), (1, True), (2, False), (2, True)]
    assert len(found(tune(plan(space=space, grid=True, max_env_step=60)))) == 4


def test_a_bad_trial_is_ended_early(monkeypatch: pytest.MonkeyPatch) -> None:
    import optuna

    monkeypatch.setattr(optuna.trial.Trial, "should_prune", lambda trial: trial.number == 1)
    rows = found(tune(plan(trials=2, max_env_step=600)))
    assert [row.complete for row in rows] == [True, False]
    assert rows[1].env_step < rows[0].env_step


def test_an_error_of_all_trials_ends_the_study() -> None:
    space = ["policy.collect.n_sample=20|30"]
    request = TrainRequest(
        config="cartpole_dqn", max_env_step=100, argv=(),
        overrides=["pipeline.logger=[]", *SMALL, "env.make_kwargs={nonsense: 1}"],
    )  # fmt: skip
    with pytest.raises(Exception, match="the first 3 trials failed"):
        tune(Plan(request=request, space=parse_space(space), folder=Path("study"), trials=20))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cartpole_dqn", "--space", "policy.learn.learning_rat=1|2"], "learning_rate"),
        (["cartpole_dqn", "--space", "policy.nstep=0|1"], "policy.nstep"),
        (["cartpole_dqn"], "no search space"),
        (["cartpole_dqn", "--grid", "--space", "policy.nstep=int(1,1000000000)"], "combinations"),
        (["cartpole_dqn", "--space", "policy.nstep=1|2", "NO"], "a bad trial would never end"),
        (["cartpole_dqn", "--space", "policy.nstep=1|0"], "policy.nstep"),
        (["--show", "-o", "nowhere"], "no study"),
        (["cartpole_dqn", "--space", "policy.nstep=1|2", "policy.nstep=3"], "searched and set"),
        (["cartpole_dqn", "--space", "policy.nstep=1|2", "--grid", "-n", "1"], "no effect with"),
    ],
)
def test_mistakes_are_found_before_the_first_trial(
    words: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    budget = [] if "NO" in words or "--show" in words else ["--max-env-step", "100"]
    code = main(["tune", *(word for word in words if word != "NO"), *budget])
    assert code == 2
    told = capfd.readouterr().err
    assert message in told
    assert told.count("hint:") <= 1
    assert not Path("runs").exists()


def test_all_mistakes_are_told_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    spaces = ["policy.learn.learning_rat=1|2", "policy.nstep=0|1", "policy.learn.batch_size=2|x"]
    assert main(["tune", "cartpole_dqn", *(f"--space={each}" for each in spaces)]) == 2
    told = capfd.readouterr().err
    words = ("no budget", "learning_rat", "policy.nstep", "batch_size", "--max-env-step")
    assert [word for word in words if word not in told] == []
    wrong = ["policy.nstep=1|2", "policy.nstep=1|2", "policy.seed", "policy.x=log(2,1)"]
    assert main(["tune", "cartpole_dqn", *(f"--space={each}" for each in wrong)]) == 2
    told = capfd.readouterr().err
    words = ("no budget", "nstep is given twice", "'policy.seed'", "'policy.x=log(2,1)'", "forms:")
    assert [word for word in words if word not in told] == []


def test_several_processes_share_a_study() -> None:
    command = [sys.executable, "-c", MAIN, "tune", "cartpole_dqn", *SMALL, "--space", RATE]
    command += ["--max-env-step", "100", "-o", "study", "-n", "3", "--jobs", "2"]
    subprocess.run(command, check=True, capture_output=True)
    rows = found(load(Path("study")))
    assert sorted(row.number for row in rows) == [0, 1, 2]
    assert all(row.complete for row in rows)
    assert importances(load(Path("study"))) == {}


@pytest.mark.parametrize(
    ("kept", "told"), [(0.0, "it is empty or was cut off"), (0.7, "damaged: it was cut off")]
)
def test_a_log_that_was_cut_off_is_told_and_no_trial_replaced(
    kept: float, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    import optuna

    file = Path("study/study.log")
    file.parent.mkdir()
    study = optuna.create_study(study_name="dicore", storage=_storage(file), direction="maximize")
    _ = study.ask()
    Path("study/trial_0000").mkdir()
    assert load(Path("study")).trials
    os.truncate(file, int(kept * file.stat().st_size))
    assert main(["tune", "-o", "study", "--show"]) == 2
    assert told in capsys.readouterr().err
    with pytest.raises(UsageError, match="does not have trial_0000"):
        tune(plan())


def test_ctrl_c_ends_the_trial_and_the_study_goes_on() -> None:
    command = [sys.executable, "-c", MAIN, "tune", "cartpole_dqn", *SMALL, "--space", RATE]
    command += ["--max-env-step", "3000000", "-o", "study", "-n", "2"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    run = Path("study/trial_0000/seed_0/log/metrics.jsonl")
    deadline = time.monotonic() + 60
    while not (run.exists() and run.stat().st_size) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=200)
    assert process.returncode == 130, out
    assert "the same command goes on" in out
    stopped, waiting = load(Path("study")).trials
    assert (stopped.state.name, waiting.state.name) == ("FAIL", "WAITING")
    assert waiting.system_attrs["fixed_params"] == stopped.params


def test_the_option_that_decides_has_the_largest_share() -> None:
    import optuna

    study = optuna.create_study(direction="maximize")
    for number in range(12):
        trial = optuna.trial.create_trial(
            value=float(number),
            params={"much": number / 12, "little": 0.5 + (number * 7 % 12) / 24},
            distributions={
                "much": optuna.distributions.FloatDistribution(0, 1),
                "little": optuna.distributions.FloatDistribution(0, 1),
            },
            user_attrs={"score": float(number)},
        )
        study.add_trial(trial)
    shares = importances(study)
    assert shares["much"] > shares["little"]
    assert sum(shares.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    "make",
    [
        os.mkfifo,
        os.mkdir,
        lambda file: file.symlink_to("/dev/zero"),
        lambda file: os.truncate(os.open(file, os.O_CREAT | os.O_WRONLY), 1 << 42),
        lambda file: file.write_text("[" * 100_000 + "\n{}\n"),
        lambda file: file.write_text('{"op_code": 99}\n{}\n'),
    ],
    ids=["pipe", "folder", "device", "sparse", "deep", "other"],
)
def test_the_log_of_a_stranger_is_one_error(make: Any, tmp_path: Path) -> None:
    make(tmp_path / "study.log")
    with pytest.raises(UsageError, match="study"):
        _storage(tmp_path / "study.log")
