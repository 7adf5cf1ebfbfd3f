"""A run that was stopped, killed or ended goes on as if nothing had happened."""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.cli import main
from dicore.run.checkpoint_store import CheckpointStore, read_state
from dicore.run.log import read_metrics
from tests.cli.test_train import DICORE, dicore, environ, here
from tests.soak import SOAK

KILLS = int(os.environ.get("DICORE_CHAOS_KILLS", "3" if SOAK else "2"))
BUDGET = 512 + 128 * max(6, 4 * KILLS)
RUN = [
    "train", "-e", "cartpole", "-p", "dqn", "-s", "3", "env.stop_value=inf",
    "pipeline.final_eval=false", "pipeline.logger=[]", "policy.learn.update_per_collect=16",
    "policy.learn.batch_size=16", "policy.model.encoder_hidden_size_list=[16]",
    "policy.eval.evaluator.eval_freq=48", "env.evaluator_env_num=2", "env.n_evaluator_episode=2",
    'policy.learn.learner.hook={"log_show_after_iter": 8, "save_ckpt_after_iter": 16}',
]  # fmt: skip
"""After 512 steps, 16 updates and a checkpoint for each 128."""
HOLDS = """
import os, time
from pathlib import Path
from dicore.run.run import Run

save = Run.save_due

def save_due(run, train_iter):
    save(run, train_iter)
    until = time.monotonic() + 120
    while train_iter >= int(os.environ["HOLD_AT"]) and time.monotonic() < until:
        if Path("go").exists():
            break
        time.sleep(0.01)

Run.save_due = save_due
"""
"""Trains no further than to an update until it may go on, so that whoever stops it is in time."""


def straight(folder: Path, budget: int = BUDGET) -> Path:
    dicore(*RUN, "--exp-name", "run", "--max-env-step", str(budget), cwd=folder)
    return folder / "run"


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the whole budget that nobody disturbed."""
    return straight(tmp_path_factory.mktemp("whole"))


def numbers(run: Path) -> list[dict[str, Any]]:
    """The lines of the metrics but for what clocks tell."""
    return [
        {tag: value for tag, value in line.items() if "time" not in tag and "per_sec" not in tag}
        for line in read_metrics(run / "log" / "metrics.jsonl")
    ]


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    if isinstance(one, dict):
        assert one.keys() == other.keys(), path
        return [d for key in one for d in differences(one[key], other[key], f"{path}/{key}")]
    if isinstance(one, list | tuple):
        assert len(one) == len(other), path
        pairs = enumerate(zip(one, other, strict=True))
        return [d for i, pair in pairs for d in differences(*pair, f"{path}/{i}")]
    same = np.array_equal(np.asarray(one), np.asarray(other))
    return [] if same or path.startswith(("/run/wall_s", "/run/log")) else [path]


def assert_equal(run: Path, whole: Path) -> None:
    """Everything that a run keeps is the same to the last bit, and every number is there once."""
    states = [read_state(each / "ckpt" / "final") for each in (run, whole)]
    assert differences(*states) == []
    assert numbers(run) == numbers(whole)


def test_a_budget_can_be_raised(whole: Path, tmp_path: Path) -> None:
    run = straight(tmp_path, 1_040)  # where a collect ends anyway
    assert "nothing to do" in here("train", "--resume", "run", cwd=tmp_path).stdout
    before = (run / "run.json").read_text()
    here("train", "--resume", "run", cwd=tmp_path)
    assert (run / "run.json").read_text() == before
    here("train", "--resume", "run", "--max-env-step", str(BUDGET), cwd=tmp_path)
    assert_equal(run, whole)
    record = json.loads((run / "run.json").read_text())
    assert record["status"] == "done"
    assert record["resumed"][0]["checkpoint"] == "final"
    assert record["resumed"][0]["env_step"] == 1_040
    assert record["result"]["wall_s"] > json.loads(before)["result"]["wall_s"]


def test_a_run_stopped_by_a_signal_goes_on(whole: Path, tmp_path: Path) -> None:
    process = start(tmp_path)
    wait_for_checkpoint(process, tmp_path / "run", 0)
    process.send_signal(signal.SIGINT)
    (tmp_path / "go").touch()
    assert process.wait(200) == 130
    again = [*RUN, "--max-env-step", str(BUDGET), "--exp-name", "run"]
    said = here(*again, "--exist", "resume", "policy.nstep=1", code=2, cwd=tmp_path)
    assert "trained with another config, which differs in policy.nstep" in said.stderr
    said = here(*again, "--resume", "auto", cwd=tmp_path)
    assert "training starts" not in said.stdout
    assert_equal(tmp_path / "run", whole)


def test_a_solved_run_goes_on_where_no_stop_value_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As it says itself; what follows the stop value is no other config."""
    monkeypatch.chdir(tmp_path)
    low = [word.replace("env.stop_value=inf", "env.stop_value=5") for word in RUN]
    assert main([*low, "--exp-name", "run", "--max-env-step", "1040"]) == 0
    capfd.readouterr()
    assert main(["train", "--resume", "run"]) == 0
    said = capfd.readouterr().out
    assert said.endswith("stop value 5 already reached; set env.stop_value=inf to continue\n")
    assert main(["train", "--resume", "run", "env.stop_value=inf"]) == 0
    result = json.loads((tmp_path / "run" / "run.json").read_text())["result"]
    assert not result["stop"]
    assert result["env_step"] >= 1040


def start(cwd: Path, hold_at: int = 40) -> subprocess.Popen[str]:
    """Begins or resumes a run, which trains as far as to an update."""
    (cwd / "holds.py").write_text(HOLDS)
    resume = (cwd / "run" / "config.json").is_file()
    words = ["train", "--resume", "run"] if resume else [*RUN, "--exp-name", "run"]
    words += ["--max-env-step", str(BUDGET)]
    return subprocess.Popen(
        [*DICORE, "--plugin", "holds.py", *words],
        cwd=cwd, env={**environ(), "HOLD_AT": str(hold_at)}, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip


def wait_for_checkpoint(process: subprocess.Popen[str], run: Path, after: int) -> None:
    """Waits until the run has got further than `after` updates."""
    store, deadline = CheckpointStore(run / "ckpt"), time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        names = [int(n.split("_")[1]) for n in store.names() if n.startswith("iteration_")]
        if max(names, default=0) > after:
            return
        time.sleep(0.01)


def test_kills_at_any_moment_spoil_nothing(whole: Path, tmp_path: Path) -> None:
    """kill -9 at random moments: never unreadable, never further back than the last checkpoint.

    In the end everything is as if nobody had killed anything. DICORE_CHAOS_KILLS=20 kills more.
    """
    draw, run, reached = random.Random(KILLS), tmp_path / "run", 0
    alive = 0
    for _ in range(KILLS):
        process = start(tmp_path, reached + 40)
        try:
            if draw.random() < 0.8:
                wait_for_checkpoint(process, run, reached)
            time.sleep(draw.random() * 0.3)
        finally:
            alive += process.poll() is None
            process.kill()
            process.wait()
        store = CheckpointStore(run / "ckpt")
        if run.is_dir() and not (run / "config.json").is_file():
            shutil.rmtree(run)  # else the next one takes the folder beside it
        name = store.resumable()
        found = 0 if name is None else int(store.metadata(name)["train_iter"])
        assert found >= reached
        reached = found
    assert alive == KILLS
    if (run / "config.json").is_file():
        here("train", "--resume", "run", "--max-env-step", str(BUDGET), cwd=tmp_path)
    else:
        straight(tmp_path)
    assert_equal(run, whole)
    assert not [each for each in (run / "ckpt").iterdir() if each.name.startswith(".")]


def test_what_a_resumed_run_learns_cannot_be_changed(whole: Path, tmp_path: Path) -> None:
    said = here("train", "--resume", str(whole), "policy.learn.batch_size=8", code=2, cwd=tmp_path)
    assert "trained with another config, which differs in policy.learn.batch_size" in said.stderr
    assert "--allow-change policy.learn.batch_size" in said.stderr
    said = here("train", "--resume", str(whole), "-e", "acrobot", code=2, cwd=tmp_path)
    assert "env" in said.stderr
    said = here("train", "--resume", str(tmp_path), code=2, cwd=tmp_path)
    assert "config.json" in said.stderr
    said = here(*RUN, "--exp-name", str(whole), "--exist", "error", code=2, cwd=tmp_path)
    assert "already exists" in said.stderr


def test_a_python_file_in_a_run_is_never_run(whole: Path, tmp_path: Path) -> None:
    """Only `config.json` is read, and code that it names by path needs --trust."""
    run = tmp_path / "run"
    run.mkdir()
    marker = tmp_path / "marker"
    config = json.loads((whole / "config.json").read_text())
    evil = f"from pathlib import Path\nPath({str(marker)!r}).touch()\n"
    for name in ("total_config.py", "formatted_total_config.py", "config.py", "evil.py"):
        (run / name).write_text(evil)
    (run / "config.json").write_text(json.dumps(config))
    here("train", "--resume", "run", "--max-env-step", "300", cwd=tmp_path)
    assert not marker.exists()
    config["config"]["env"]["type"] = f"{run / 'evil.py'}:Env"
    (run / "config.json").write_text(json.dumps(config))
    said = here("train", "--resume", "run", "--max-env-step", "600", code=2, cwd=tmp_path)
    assert "evil.py" in said.stderr
    assert "--trust" in here("train", "run/config.json", code=2, cwd=tmp_path).stderr
    assert not marker.exists()
    here("train", "run/config.json", "--trust", code=2, cwd=tmp_path)  # it has no class Env
    assert marker.exists()


# ---- resumed otherwise


TINY = [
    "train", "-e", "cartpole", "-p", "dqn", "--max-env-step", "40", "env.collector_env_num=4",
    "env.evaluator_env_num=1", "policy.eval.evaluator.n_episode=2", "env.stop_value=inf",
    "pipeline.logger=[]", "policy.learn.batch_size=8", "policy.learn.update_per_collect=16",
    "policy.model.encoder_hidden_size_list=[16]", "--exp-name", "run",
]  # fmt: skip
MORE = ["train", "--resume", "run", "--max-env-step", "80"]


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """Runs commands beside a small run, and returns exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    assert main(TINY) == 0

    def command(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(list(words))
        return code, *capfd.readouterr()

    return command


def test_an_option_may_change_if_it_is_named(tiny: Any) -> None:
    """R-C12: what changed is printed; the run keeps both configs."""
    change = ["policy.learn.batch_size=16", "policy.nstep=2"]
    assert tiny(*MORE, *change, "--allow-change", "policy.learn")[0] == 2
    assert not Path("run/config_1.json").exists()
    allowed = [f"--allow-change={path}" for path in ("policy.learn", "policy.nstep")]
    code, said, _ = tiny(*MORE, *change, *allowed)
    assert code == 0
    assert "changed: policy.learn.batch_size: 8 -> 16\n" in said
    assert "changed: pipeline.max_env_step: 40 -> 80\n" in said
    for name, size in (("config_1.json", 8), ("config.json", 16)):
        config = json.loads(Path("run", name).read_text())["config"]
        assert config["policy"]["learn"]["batch_size"] == size
    assert tiny("train", "--resume", "run", "--max-env-step", "120")[0] == 0
    assert not Path("run/config_2.json").exists(), "a new budget is no new config"


def test_a_run_that_cannot_load_with_a_change_keeps_its_config(tiny: Any) -> None:
    """R-C12: a change that the checkpoint does not fit leaves the run as it was."""
    change = ["policy.model.encoder_hidden_size_list=[7]", "--allow-change", "policy.model"]
    before = Path("run/config.json").read_bytes()
    code, _, errors = tiny(*MORE, *change)
    assert (code, "cannot load its state" in errors) == (4, True)
    assert Path("run/config.json").read_bytes() == before
    assert not Path("run/config_1.json").exists()
    assert tiny(*MORE)[0] == 0


IMPATIENT = """
import os
import signal
import gymnasium as gym

class Env(gym.Env):
    observation_space = gym.spaces.Box(-1, 1, (2,))
    action_space = gym.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 5
        return self.observation_space.low * 0, {}

    def step(self, action):
        self.left -= 1
        Env.steps += 1
        if Env.steps == int(os.environ.get("KILL_AT", "0")):
            os.kill(os.getpid(), getattr(signal, os.environ["KILL_BY"]))
        reward = float(self.np_random.random())
        return self.observation_space.low * 0, reward, self.left == 0, False, {}
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL"])
def test_a_final_evaluation_that_was_cut_short_is_repeated(name: str, tmp_path: Path) -> None:
    """R-C01: the budget is spent then, but the run has not ended."""
    (tmp_path / "impatient.py").write_text(IMPATIENT)
    words = [
        "train", "-e", "./impatient.py:Env", "-p", "dqn", "--max-env-step", "40", "-q",
        "env.collector_env_num=4", "env.evaluator_env_num=1", "env.n_evaluator_episode=2",
        "env.stop_value=inf", "pipeline.logger=[]", "policy.learn.batch_size=8",
        "policy.eval.evaluator.eval_freq=1000000",
        'policy.learn.learner.hook={"save_ckpt_after_iter": 1}',
    ]  # fmt: skip
    here(*words, "--exp-name", "whole", cwd=tmp_path)
    at = 1 + 40 + 3  # spaces, training, then within the last evaluation
    code = {"SIGTERM": 143, "SIGKILL": -9}[name]
    env = {**environ(), "KILL_AT": str(at), "KILL_BY": name}
    command = [*DICORE, *words, "--exp-name", "cut"]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=False)
    assert done.returncode == code, done.stderr
    here("train", "--resume", "cut", "--trust", "-q", cwd=tmp_path)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    ends = [json.loads((run / "run.json").read_text()) for run in (whole, cut)]
    assert ends[1]["status"] == "done"
    assert ends[1]["result"]["best_return"] == ends[0]["result"]["best_return"]
    states = [read_state(run / "ckpt" / "final") for run in (whole, cut)]
    assert differences(*states) == []
    assert "nothing to do" in here("train", "--resume", "cut", "--trust", cwd=tmp_path).stdout


SECRET_LOGGER = """
import pathlib

from dicore.config import ComponentConfig, frozen, option

@frozen(kw_only=True)
class Remote(ComponentConfig):
    token: str = option("", "login")

    def build(self, ctx, **parts):
        pathlib.Path("token").write_text(self.token)
        return Quiet()

class Quiet:
    config_class = Remote
    def open(self, target): pass
    def log_scalars(self, *args, **kwargs): pass
    def log_text(self, *args, **kwargs): pass
    def flush(self): pass
    def close(self): pass
"""


@pytest.mark.filterwarnings("default:.*not saved, as a secret")
def test_a_secret_that_was_not_saved_is_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("remote.py").write_text(SECRET_LOGGER)
    logger = 'pipeline.logger=[{"type": "./remote.py:Remote", "token": "%s"}]'
    assert main([*TINY, logger % "first"]) == 0
    assert "pipeline.logger[0].token: not saved, as a secret; rename" in capfd.readouterr().err
    assert main([*MORE, "--trust"]) == 2
    assert "was <redacted> when it was saved; give it again" in capfd.readouterr().err
    assert main([*MORE, "--trust", logger % "second"]) == 0
    assert Path("token").read_text() == "second"
    assert "second" not in capfd.readouterr().out


@pytest.mark.parametrize("count", [2, 6])
def test_a_run_goes_on_with_another_number_of_environments(count: int, tiny: Any) -> None:
    """R-C13: and says what is no longer exact."""
    changes = [f"env.collector_env_num={count}", "env.evaluator_env_num=2"]
    code, said, errors = tiny(*MORE, *changes)
    assert (code, errors) == (0, "")
    assert f"changed: env.collector_env_num: 4 -> {count} (not exact: episodes start anew" in said
    assert "changed: env.evaluator_env_num: 1 -> 2 (not exact: evaluations have other" in said
    state = read_state(Path("run/ckpt/final"))
    assert len(state["collector_env"]["finished"]) == count
    assert state["collector"]["envstep"] >= 80
    before = CheckpointStore("run/ckpt").load("iteration_16")["collector_env"]["finished"]
    kept = list(zip(before, state["collector_env"]["finished"], strict=False))
    assert all(now >= then for then, now in kept)


@pytest.mark.filterwarnings("always::dicore.errors.ConfigWarning")
def test_a_run_goes_on_without_what_is_not_installed(tiny: Any) -> None:
    """R-D11: loggers and hooks may be left out, and parts that the checkpoint lacks."""
    file, gone = Path("run/config.json"), {"dist": "acme-rl", "version": "1.2.0", "target": "a:B"}
    record = json.loads(file.read_text())
    whole = copy.deepcopy(record["config"])
    learner = record["config"]["policy"]["learn"]["learner"]
    learner["hook"]["acme_after_iter"] = {"type": "acme-rl/h"}
    record["config"]["pipeline"]["logger"] = [{"type": "acme-rl/w", "project": "x"}, "console"]
    record["components"] |= {
        "policy.learn.learner.hook.acme_after_iter": {"type": "acme-rl/h", **gone},
        "pipeline.logger[0]": {"type": "acme-rl/w", **gone},
    }
    file.write_text(json.dumps(record))
    code, _, errors = tiny(*MORE)
    assert code == 2
    assert "the run used it from acme-rl 1.2.0" in errors
    code, _, errors = tiny(*MORE, "--ignore-missing")
    assert code == 0
    assert errors.splitlines() == [
        f"warning: {path}: left out: acme-rl/{name} of acme-rl 1.2.0 is not installed"
        for path, name in (
            ("policy.learn.learner.hook.acme_after_iter", "h"),
            ("pipeline.logger[0]", "w"),
        )
    ]
    file.write_text(json.dumps({**record, "config": whole}))
    store = CheckpointStore("run/ckpt")
    state = store.load("final")
    del state["task"]
    store.save("final", state, train_iter=9999, env_step=80, complete=True)
    more = [*MORE[:-1], "120", "--ignore-missing"]
    assert "the checkpoint lacks task" in tiny(*more[:-1])[2]
    assert tiny(*more)[0] == 0


def test_a_job_that_is_preempted_queues_itself_again(tmp_path: Path) -> None:
    """R-C03: the command that Slurm starts again resumes the run."""
    queue = tmp_path / "bin/scontrol"
    queue.parent.mkdir()
    queue.write_text('#!/bin/sh\necho "$@" >> queue\n')
    queue.chmod(0o755)
    env = {**environ(), "SLURM_JOB_ID": "17", "PATH": f"{queue.parent}:{os.environ['PATH']}"}
    (tmp_path / "holds.py").write_text(HOLDS)
    env["HOLD_AT"] = "40"
    job = [*DICORE, "--plugin", "holds.py", *RUN, "--exp-name", "run", "--requeue"]
    job.append("--max-env-step")
    for budget in ("1000000", "1000"):
        process = subprocess.Popen(
            [*job, budget], cwd=tmp_path, env=env, stdout=subprocess.PIPE, text=True
        )
        with process:
            if budget == "1000000":
                wait_for_checkpoint(process, tmp_path / "run", 0)
                process.send_signal(signal.SIGUSR1)
                (tmp_path / "go").touch()
            said = process.communicate(timeout=200)[0]
        assert process.returncode == (75 if budget == "1000000" else 0), said
    assert (tmp_path / "queue").read_text() == "requeue 17\n"
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert record["resumed"][0]["train_iter"] > 0
    assert not (tmp_path / "run-1").exists()
    refused = here(*RUN, "--requeue", code=2, cwd=tmp_path)
    assert "not a Slurm job" in refused.stderr


def test_a_preemption_before_the_run_begins_requeues_it(tmp_path: Path) -> None:
    """The signal comes while the first environment is made."""
    (tmp_path / "env.py").write_text(
        "import os, signal, time\nimport gymnasium\n\n\ndef make():\n"
        "    os.kill(os.getpid(), signal.SIGUSR1)\n    time.sleep(0.1)\n"
        "    return gymnasium.make('CartPole-v1')\n"
    )
    queue = tmp_path / "bin/scontrol"
    queue.parent.mkdir()
    queue.write_text('#!/bin/sh\necho "$@" >> queue\n')
    queue.chmod(0o755)
    path = f"{queue.parent}:{os.environ['PATH']}"
    words = ["train", "-e", "./env.py:make", "-p", "dqn", "--requeue", "env.stop_value=475"]
    done = subprocess.run(
        [*DICORE, *words], cwd=tmp_path, env={**environ(), "SLURM_JOB_ID": "17", "PATH": path},
        capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 75, done.stderr
    assert (tmp_path / "queue").read_text() == "requeue 17\n"


@pytest.mark.parametrize("option", [["--allow-change", "policy.nstep"], ["--ignore-missing"]])
def test_options_of_resuming_are_not_ignored(option: list[str], tmp_path: Path) -> None:
    done = here("train", "-e", "cartpole", "-p", "dqn", *option, cwd=tmp_path, code=2)
    assert "have no effect without --resume RUN" in done.stderr
    assert not any(tmp_path.iterdir())


LATE = """
import os, signal
from dicore.run import checkpoint_store
from dicore.run.run import Run

checkpoint_store.SAVE_EVERY_S = float(os.environ["SAVE_EVERY"])
save = Run.save_due

def save_due(run, train_iter):
    save(run, train_iter)
    if train_iter >= int(os.environ["KILL_AT"]):
        os.kill(os.getpid(), signal.SIGKILL)

Run.save_due = save_due
checkpoint_store.CheckpointStore.is_late = property(lambda self: True)
"""
"""Saves after every step, as if each took a minute, and dies at an update."""


def test_a_killed_run_goes_on_from_its_last_minute(whole: Path, tmp_path: Path) -> None:
    """Saving by the clock changes no number, and the end deletes what it saved."""
    (tmp_path / "late.py").write_text(LATE)
    words = [word for word in RUN if "save_ckpt" not in word]
    words += ['policy.learn.learner.hook={"log_show_after_iter": 8}', "--exp-name", "run"]
    command = [*DICORE, "--plugin", "late.py", *words, "--max-env-step", str(BUDGET)]
    env = {**environ(), "KILL_AT": "40", "SAVE_EVERY": "0"}
    killed = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    run = tmp_path / "run"
    at = CheckpointStore(run / "ckpt").metadata("latest")["train_iter"]
    assert 0 < at <= 48
    here("train", "--resume", "run", cwd=tmp_path)
    assert json.loads((run / "run.json").read_text())["resumed"][0]["checkpoint"] == "latest"
    assert_equal(run, whole)
    assert not (run / "ckpt/latest").exists()


def test_a_run_without_a_complete_checkpoint_goes_on_from_the_best_and_says_what_is_lost(
    tmp_path: Path,
) -> None:
    words = [word for word in RUN if "save_ckpt" not in word]
    here(*words, "--exp-name", "run", "--max-env-step", "1000", cwd=tmp_path)
    store = CheckpointStore(tmp_path / "run/ckpt")
    for name in set(store.names()) - {"best"}:
        store.delete(name)
    at = store.metadata("best")["train_iter"]
    said = here("train", "--resume", "run", "--max-env-step", "1500", cwd=tmp_path)
    assert "no complete checkpoint: resumes from 'best', at env step " in said.stdout
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert (record["status"], record["resumed"][0]["checkpoint"]) == ("done", "best")
    returns = [line for line in read_metrics(tmp_path / "run/log/metrics.jsonl")
               if "evaluator/return_mean" in line and line["train_iter"] <= at]  # fmt: skip
    assert [line["train_iter"] for line in returns][-1:] == [at], "what made it the best"
    assert record["result"]["env_step"] >= 1500


OWN = """
import os, signal
from pathlib import Path

import gymnasium, numpy as np

class Walk(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if not Path("stopped").exists():
            Path("stopped").touch()
            os.kill(os.getpid(), signal.SIGINT)
        return np.zeros(2, np.float32), 1.0, self.steps >= 5, False, {}

gymnasium.register("Walk-v0", Walk)
"""


@pytest.mark.skipif(os.name == "nt", reason="os.kill ends the process there")
@pytest.mark.parametrize("env", ["walk.py:Walk", "walk:Walk-v0"])
def test_the_line_that_resumes_a_stopped_run_can_be_copied(env: str, tmp_path: Path) -> None:
    """A run of an environment in a file or module asks for --trust, so the line has it."""
    (tmp_path / "walk.py").write_text(OWN)
    given = ["-e", env, "-p", "dqn", "--exp-name", "run", "--max-env-step", "64",
             "pipeline.final_eval=false", "pipeline.logger=[]"]  # fmt: skip
    said = dicore("train", *given, cwd=tmp_path, code=130).stdout
    line = next(each for each in said.splitlines() if each.startswith("resume:"))
    assert line.split()[1:] == ["dicore", "train", "--resume", "run", "--trust"]
    assert "budget spent" in dicore(*line.split()[2:], cwd=tmp_path).stdout
