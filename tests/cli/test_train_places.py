"""Where and beside whom a training runs: folders of any name, locks, disks that refuse, pipes."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_plugins")
pytest.importorskip("dicore_contrib_envs")

from dicore.cli import main
from dicore.run.checkpoint_store import CheckpointStore
from tests.cli.test_train import DICORE, dicore, environ, here, read, start, wait_for_updates

TINY = [
    "train", "-e", "cartpole", "-p", "dqn", "--max-env-step", "40", "env.evaluator_env_num=1",
    "policy.eval.evaluator.n_episode=1", "env.stop_value=inf", "pipeline.logger=[]",
    "policy.model.encoder_hidden_size_list=[16]", "policy.learn.update_per_collect=16",
    "policy.learn.batch_size=8",
]  # fmt: skip


def run(
    words: list[str], cwd: Path, code: str = DICORE[-1], **how: Any
) -> subprocess.CompletedProcess[str]:
    how = {"env": environ(), "capture_output": True, "text": True, "timeout": 500, **how}
    return subprocess.run([*DICORE[:-1], code, *words], cwd=cwd, check=False, **how)


# ---- names of folders


def test_the_config_of_a_folder_with_an_equals_sign_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*TINY, "--exp-name=runs/lr=0.1"]) == 0
    again = ["train", "runs/lr=0.1", "policy.nstep=2", "--exp-name=again"]
    assert main(again) == 0
    policy = read(Path("again/config.json"))["config"]["policy"]
    assert (policy["nstep"], policy["learn"]["batch_size"]) == (2, 8)


def test_an_override_may_be_longer_than_the_name_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    sizes = ",".join(["8"] * 200)
    long = f"policy.model.encoder_hidden_size_list=[{sizes}]"
    assert main([*TINY, long, "--dry-run"]) == 0
    assert main(["config", "check", "cartpole_dqn", long]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "name",
    [
        "two words/a b",
        "ünïcödé/学習 😀",
        "x" * 200,
        "./a/../b/./c",
        "quote'\"$(id)`",
        "-dash",
    ],
)
def test_a_folder_may_have_any_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """R-F08: it trains, is resumed and evaluated there."""
    monkeypatch.chdir(tmp_path)
    assert main([*TINY, f"--exp-name={name}"]) == 0
    assert read(Path(name) / "run.json")["status"] == "done"
    assert main(["train", f"--resume={name}", "--max-env-step", "80"]) == 0
    assert read(Path(name) / "run.json")["result"]["env_step"] == 80
    assert main(["eval", "-n", "1", "--", name]) == 0
    assert main([*TINY, f"--exp-name={name}", "--exist", "error"]) == 2


@pytest.mark.parametrize(
    "name", ["x" * 300, "a\0b", "/proc/dicore/x", "/dev/null/x", "", ".", "..", "/"]
)
def test_a_folder_that_cannot_be_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], name: str
) -> None:
    """R-F08, D03: before anything is trained."""
    monkeypatch.chdir(tmp_path)
    code = main([*TINY, f"--exp-name={name}"])
    said = capfd.readouterr()
    assert code == (0 if name == "" else 2), said.err
    assert "Traceback" not in said.err
    if name:
        assert said.err.startswith("error: ")
        assert len(said.err.splitlines()) <= 3
        assert list(tmp_path.iterdir()) == []


def test_a_parent_that_may_not_be_written_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """R-D03: also for root, who becomes nobody for a moment."""
    (tmp_path / "closed").mkdir(mode=0o555)
    monkeypatch.chdir(tmp_path)
    assert main([*TINY, "--exp-name", "warm"]) == 0  # everything is imported from here on
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        code = main([*TINY, "--exp-name", str(tmp_path / "closed/x")])
    finally:
        if root:
            os.seteuid(0)
    assert code == 2
    assert "cannot make the run folder" in capfd.readouterr().err


Piped = tuple[Path, subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def piped(tmp_path_factory: pytest.TempPathFactory) -> Piped:
    """An empty home that may not be written, and what a training there said through pipes."""
    cwd = tmp_path_factory.mktemp("work")
    home = cwd / "home"
    home.mkdir(mode=0o555)
    words = [*TINY[:-2], "pipeline.logger=[console]", "--exp-name", "x"]
    return home, run(words, cwd, env={**environ(), "HOME": str(home)})


def test_nothing_is_written_at_home(piped: Piped) -> None:
    home, done = piped
    assert (done.returncode, done.stderr) == (0, "")
    assert list(home.iterdir()) == []


# ---- two at a time


def test_two_processes_never_train_in_one_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """R-F06, F07: the second is told who is there; the lock of a killed one is no lock."""
    monkeypatch.chdir(tmp_path)
    resume = ["train", "--resume", "x", "--max-env-step"]
    overwrite = [*TINY, "--exp-name", "x", "--exist", "overwrite"]
    with start(tmp_path, 'policy.learn.learner.hook={"save_ckpt_after_iter": 100}') as process:
        try:
            store = CheckpointStore(tmp_path / "x/ckpt")
            while process.poll() is None and store.resumable() is None:
                time.sleep(0.05)
            for words in ([*resume, "100000"], overwrite):
                capfd.readouterr()
                assert main(words) == 2
                said = capfd.readouterr().err
                assert f"process {process.pid} on " in said
                assert len(said.splitlines()) <= 3
            assert main([*TINY, "--exp-name", "x"]) == 0
            assert (tmp_path / "x-1/run.json").is_file()
            assert process.poll() is None, "the first one trains on"
        finally:
            process.kill()
    assert (tmp_path / "x/.lock").exists(), "left by the one that was killed"
    reached = int(store.metadata(store.resumable() or "")["env_step"])
    assert main([*resume, str(reached + 40)]) == 0
    assert read(tmp_path / "x/run.json")["result"]["env_step"] == reached + 40
    assert not (tmp_path / "x/.lock").exists()
    assert main(overwrite) == 0
    assert read(tmp_path / "x/run.json")["result"]["env_step"] == 40
    assert "resumed" not in read(tmp_path / "x/run.json")


# ---- disks that refuse


def run_on_small_disk(words: list[str], cwd: Path, limit: int) -> subprocess.CompletedProcess[str]:
    """Runs dicore in a process that writes no file larger than `limit` bytes."""
    limits = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
    return run(words, cwd, f"{limits}; {DICORE[-1]}")


def test_a_disk_that_fills_ends_the_training_with_4(tmp_path: Path) -> None:
    """R-D02: two failures are survived, the third in a row ends it; older checkpoints stand."""
    words = [
        *TINY, "--exp-name", "x", "--max-env-step", "20000", "env.evaluator_env_num=1",
        "policy.eval.evaluator.eval_freq=1000000",
        'policy.learn.learner.hook={"save_ckpt_after_iter": 32}',
    ]  # fmt: skip
    done = run_on_small_disk(words, tmp_path, 100_000)
    assert done.returncode == 4, done.stderr
    lines = done.stderr.splitlines()
    assert "Traceback" not in done.stderr
    assert sum("not written" in line for line in lines) == 3
    assert any(line.startswith("error: ") for line in lines)
    record = read(tmp_path / "x/run.json")
    assert record["status"] == "failed"
    assert "CheckpointWriteError" in record["error"]
    store = CheckpointStore(tmp_path / "x/ckpt")
    assert store.resumable() is not None
    assert not [path for path in store.folder.iterdir() if path.name.startswith(".")]
    tag = "run/failed_saves"
    told = map(json.loads, (tmp_path / "x/log/metrics.jsonl").read_text().splitlines())
    assert [line[tag] for line in told if tag in line] == [1, 2, 3]
    more = record["result"]["env_step"] + 200
    here("train", "--resume", "x", "--max-env-step", str(more), cwd=tmp_path)
    assert read(tmp_path / "x/run.json")["status"] == "done"


# ---- signals, loggers, pipes


def test_a_warning_of_the_cluster_saves_and_can_be_resumed(tmp_path: Path) -> None:
    """R-C03: exit code 75."""
    with start(tmp_path) as process:
        try:
            wait_for_updates(tmp_path / "x")
            process.send_signal(signal.SIGUSR1)
            process.communicate(timeout=200)
        finally:
            process.kill()
    assert process.returncode == 75
    reached = read(tmp_path / "x/run.json")["result"]["env_step"]
    budget = str(reached + 100)
    here("train", "--resume", "x", "--max-env-step", budget, cwd=tmp_path)
    assert read(tmp_path / "x/run.json")["result"]["env_step"] >= reached + 100


BAD_LOGGERS = '''
from dicore.interfaces.logger import ILogger

class Offline:
    """Cannot be reached."""

    def __init__(self): ...
    def open(self, target): ...
    def log_scalars(self, scalars, *, env_step, train_iter): raise ConnectionError("no route")
    def log_text(self, text, *, channel="run"): ...
    def flush(self): ...
    def close(self): raise RuntimeError("not this either")
'''


def test_a_logger_that_fails_never_stops_a_training(tmp_path: Path) -> None:
    """R-J08: one warning, and the others go on."""
    (tmp_path / "bad.py").write_text(BAD_LOGGERS)
    words = [*TINY[:-2], 'pipeline.logger=["./bad.py:Offline", "tensorboard"]']
    done = dicore(*words, "--exp-name", "x", cwd=tmp_path)  # pytest has a handler of its own
    assert done.stderr.count("\n") == 1
    assert "logger Offline is disabled" in done.stderr
    assert "no route" in done.stderr
    assert (tmp_path / "x/log/metrics.jsonl").stat().st_size > 0
    assert list((tmp_path / "x/log").glob("events*"))


def test_a_full_disk_of_the_log_never_stops_a_training(tmp_path: Path) -> None:
    """R-J08: the metrics file itself."""
    hooks = 'policy.learn.learner.hook={"log_show_after_iter": 1, "save_ckpt_after_run": false}'
    words = [*TINY, "--exp-name", "x", "--max-env-step", "400", hooks]
    words.append("policy.learn.update_per_collect=128")
    done = run_on_small_disk(words, tmp_path, 20_000)
    assert done.stderr.count("metrics.jsonl is not written for now") == 1
    assert "Traceback" not in done.stderr
    assert done.returncode == 4, "the checkpoint at the end does not fit either"
    assert read(tmp_path / "x/run.json")["status"] == "failed"


def test_a_disk_that_is_as_good_as_full_is_told_before_anything_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """R-D02: for new runs, and for those that stand there already."""
    monkeypatch.chdir(tmp_path)
    assert main([*TINY, "--exp-name", "x"]) == 0
    before = sorted(Path("x").rglob("*"))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=5 << 20))
    resume = ["train", "--resume", "x", "--max-env-step", "80"]
    for words in ([*TINY, "--exp-name", "new"], resume):
        capfd.readouterr()
        assert main(words) == 2
        assert "only 5 MiB are free" in capfd.readouterr().err
    assert sorted(Path("x").rglob("*")) == before
    assert not Path("new").exists()


def test_a_disk_without_room_for_the_config_is_one_error(tmp_path: Path) -> None:
    done = run_on_small_disk([*TINY, "--exp-name", "x"], tmp_path, 1_000)
    assert done.returncode == 2
    assert done.stderr == "error: x: cannot be written: File too large\n"


def test_a_reader_of_both_streams_that_leaves_does_not_end_the_training(tmp_path: Path) -> None:
    """R-F12: `dicore train … 2>&1 | head -1`."""
    into, out = os.pipe()
    words = [*TINY, "--exp-name", "x", "pipeline.logger=[console]"]
    process = subprocess.Popen(
        [*DICORE, *words], cwd=tmp_path, env=environ(), stdout=out, stderr=out
    )
    os.close(out)
    try:
        assert b"x" in os.read(into, 4096)
        os.close(into)
        assert process.wait(200) == 0
    finally:
        process.kill()
        process.wait()
    assert read(tmp_path / "x/run.json")["status"] == "done"


@pytest.mark.parametrize("words", [["list", "policy"], ["nope"]])
def test_a_caller_that_has_closed_its_streams(words: list[str], tmp_path: Path) -> None:
    program = ["bash", "-c", '"$@" >&- 2>&-; echo $?', "-", *DICORE, *words]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("0\n" if words[0] == "list" else "2\n", "")


@pytest.mark.parametrize(("nohup", "code"), [(False, 129), (True, 0)])
def test_a_terminal_that_is_closed_does_not_spoil_the_training(
    nohup: bool, code: int, tmp_path: Path
) -> None:
    """It is saved and ends; under `nohup` it goes on, though nobody can read what it says."""
    words = [*TINY, "--max-env-step", "1000000" if code else "700", "pipeline.logger=[console]"]
    child, terminal = pty.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGHUP, signal.SIG_IGN if nohup else signal.SIG_DFL)
            os.chdir(tmp_path)
            os.execve(DICORE[0], [*DICORE, *words, "--exp-name", "x"], environ())
        finally:
            os._exit(127)  # never the tests a second time
    try:
        seen = b""
        while b"env steps" not in seen:
            seen += os.read(terminal, 4096)
    except BaseException:
        os.kill(child, signal.SIGKILL)
        raise
    finally:
        os.close(terminal)
        status = os.waitpid(child, 0)[1]
    assert os.waitstatus_to_exitcode(status) == code
    record = read(tmp_path / "x/run.json")
    assert record["status"] == ("interrupted" if code else "done")
    assert (tmp_path / "x/ckpt/final").is_dir()


def test_without_a_terminal_lines_are_plain(piped: Piped) -> None:
    """R-F12."""
    _, done = piped
    assert "x" in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert "\r" not in done.stdout


# ---- the same again


def test_one_seed_is_one_training_in_any_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-J03: parameters, buffer and numbers are equal to the last bit, under any hash seed."""
    monkeypatch.chdir(tmp_path)
    words = [*TINY, "--max-env-step", "200", "--exp-name"]
    done = run([*words, "a", "-s5"], tmp_path, env={**environ(), "PYTHONHASHSEED": "4242"})
    assert done.returncode == 0, done.stderr
    assert main([*words, "b", "-s5"]) == 0  # Python drew a hash seed when it started, or has 0
    assert main([*words, "c", "-s6"]) == 0
    digests = [
        read(tmp_path / name / "ckpt/final/manifest.json")["files"]["tensors.safetensors"]["sha256"]
        for name in "abc"
    ]
    assert digests[0] == digests[1] != digests[2]


def test_importing_does_nothing(tmp_path: Path) -> None:
    """R-J07: no thread, no file, no handler, no seed, no environment, no warning."""
    program = """
import logging, os, random, signal, sys, threading
before = (
    random.getstate(), dict(os.environ), logging.root.handlers[:],
    [signal.getsignal(n) for n in signal.valid_signals()], sys.excepthook, os.getcwd(),
)
opened = []
sys.addaudithook(
    lambda event, facts: opened.append((event, facts))
    if event in ("socket.connect", "subprocess.Popen", "os.mkdir")
    or (event == "open" and isinstance(facts[1], str) and set(facts[1]) & set("wax+"))
    else None
)
import dicore
for name in dicore.__all__:
    getattr(dicore, name)
import dicore.run, dicore.errors, dicore.cli
assert threading.active_count() == 1
assert not opened, opened
assert before == (
    random.getstate(), dict(os.environ), logging.root.handlers[:],
    [signal.getsignal(n) for n in signal.valid_signals()], sys.excepthook, os.getcwd(),
)
assert not {"torch", "dicore_plugins"} & set(sys.modules)
"""
    command = [sys.executable, "-B", "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_several_rewards_are_refused_before_there_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "vec.py").write_text(
        "import gymnasium, numpy as np\n\n\nclass Vec(gymnasium.Env):\n"
        "    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)\n"
        "    action_space = gymnasium.spaces.Discrete(2)\n"
        "    reward_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)\n"
    )
    for policy in ("dqn", "ppo", "r2d2"):
        said = here("train", "-e", "./vec.py:Vec", "-p", policy, code=2, cwd=tmp_path).stderr
        assert f"policy {policy} learns from one reward per step, but the env" in said
    assert not (tmp_path / "runs").exists()
