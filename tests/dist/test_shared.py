"""What every way to train in several processes must survive: one suite over all of them."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.named_memory import named_memory

pytestmark = pytest.mark.slow

BUDGET = 3_000
TRAINING = (
    "-e", "cartpole", "-p", "dqn", "-s", "0", "--max-env-step", str(BUDGET), "env.stop_value=inf",
    "policy.model.encoder_hidden_size_list=[32]", "policy.eval.evaluator.eval_freq=2000",
    "pipeline.logger=[]",
)  # fmt: skip
PROCESSES = ("pipeline.system.collector_num=2", "pipeline.system.heartbeat_timeout=5")
DIST = ("-m", "dist", *TRAINING, *PROCESSES)
SYSTEMS = {
    "parallel": ("-m", "parallel", *TRAINING, *PROCESSES),
    "threads": (*DIST, "pipeline.system.start=threads"),
    "files": (*DIST, "pipeline.system.start=processes"),
    "ray": (*DIST, "pipeline.system.start=processes", "pipeline.system.comm_learner=ray"),
}
RESUMED = ["parallel", "threads", "files"]
"""Over Ray, samples end with the cluster."""
SEPARATE = ["parallel", "files", "ray"]
"""Those whose collectors are processes."""


def dicore(*words: str) -> subprocess.Popen[str]:
    """Starts the command in a session of its own."""
    code = "import sys; from dicore.cli import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.Popen(
        [sys.executable, "-c", code, *words],
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


class Training:
    """A training in a folder, in as many runs of the command as a test needs."""

    def __init__(self, folder: Path, system: str) -> None:
        self.folder, self.system = folder, system
        self.inside: set[psutil.Process] = set()
        self._resumes = False
        self.start()

    def start(self) -> None:
        """Starts the training, or resumes it."""
        train = ("train", "--resume", str(self.folder))
        first = (*SYSTEMS[self.system], "--exp-name", str(self.folder))
        self.process = dicore(*(train if self._resumes else first))
        self._resumes = True

    def status(self) -> dict[str, Any]:
        """What its processes do; {}: it has written nothing."""
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((self.folder / "log" / "status.json").read_text())
            return found
        return {}

    def wait_for(self, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Waits until the status is as wanted, and notes all processes."""
        until = time.monotonic() + 180
        while not (status := self.status()) or status["ended"] or not holds(status):
            assert self.process.poll() is None, self.process.communicate()[0]
            assert time.monotonic() < until, status
            time.sleep(0.1)
        self.note()
        return status

    def note(self) -> None:
        """Notes the processes that are there, to see later that they have ended."""
        with contextlib.suppress(psutil.Error):
            self.inside.update(psutil.Process(self.process.pid).children(recursive=True))
        assert not named_memory(self.inside), "it would be left if they were killed"

    def end(self, code: int) -> str:
        """Waits for the end of the command; nothing that it started is left."""
        self.note()
        text, _ = self.process.communicate(timeout=240)
        assert self.process.returncode == code, text
        _, alive = psutil.wait_procs(self.inside, 60)
        assert [each.cmdline() for each in alive] == []
        return text

    def result(self) -> dict[str, Any]:
        """The result of the run, after what holds for all of them was checked."""
        record = json.loads((self.folder / "run.json").read_text())
        found: dict[str, Any] = record["result"]
        lines = (self.folder / "log" / "metrics.jsonl").read_text().splitlines()
        losses = [
            each["train_iter"] for each in map(json.loads, lines) if "learner/total_loss" in each
        ]
        assert losses == sorted(set(losses))
        if self.system != "parallel":
            journal = (self.folder / "policy" / "journal.jsonl").read_text().splitlines()
            events = [json.loads(each) for each in journal if each]
            blocks = [each for each in events if each["event"] == "block"]
            assert len({each["file_path"] for each in blocks}) == len(blocks)
            steps = sum(each["env_step"] for each in events if each["event"] in ("block", "steps"))
            assert steps == found["env_step"]
        return found


@pytest.fixture
def training(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Training]:
    made = Training(tmp_path / "run", request.param)
    yield made
    made.note()
    made.process.kill()
    for each in made.inside:
        with contextlib.suppress(psutil.Error):
            each.kill()
    made.process.wait()
    if made.process.stdout is not None:
        made.process.stdout.close()


def collects(status: dict[str, Any]) -> bool:
    """Whether updates are made, of the samples of all collectors."""
    steps = [each["env_step"] for each in status["collectors"]]
    return status["learner"]["train_iter"] > 100 and len(steps) == 2 and min(steps) > 0


@pytest.fixture(scope="module")
def serial_updates(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Updates of the serial run with this budget."""
    folder = tmp_path_factory.mktemp("serial") / "run"
    dicore(*TRAINING, "--exp-name", str(folder)).communicate(timeout=500)
    return int(json.loads((folder / "run.json").read_text())["result"]["train_iter"])


@pytest.mark.parametrize("training", SYSTEMS, indirect=True)
def test_a_budget_is_kept_and_its_updates_are_made(training: Training, serial_updates: int) -> None:
    training.wait_for(collects)
    training.end(0)
    result = training.result()
    assert (result["env_step"], result["train_iter"]) == (BUDGET, serial_updates)


@pytest.mark.parametrize("training", RESUMED, indirect=True)
def test_ctrl_c_and_resume(training: Training) -> None:
    training.wait_for(collects)
    os.killpg(training.process.pid, signal.SIGINT)
    training.end(130)
    assert json.loads((training.folder / "run.json").read_text())["status"] == "interrupted"
    training.start()
    training.wait_for(lambda status: True)
    training.end(0)
    assert training.result()["env_step"] == BUDGET


@pytest.mark.parametrize("training", RESUMED, indirect=True)
def test_a_killed_training_goes_on(training: Training) -> None:
    training.wait_for(collects)
    training.process.kill()
    training.end(-signal.SIGKILL)
    training.start()
    training.end(0)
    assert training.result()["env_step"] == BUDGET


@pytest.mark.parametrize("training", ["ray"], indirect=True)
def test_a_training_whose_samples_are_gone_says_so(training: Training) -> None:
    training.wait_for(collects)
    os.killpg(training.process.pid, signal.SIGINT)
    training.end(130)
    training.start()
    assert "over Ray they end with the cluster; start a new run" in training.end(2)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("training", SEPARATE, indirect=True)
def test_a_collector_is_replaced(training: Training, number: int) -> None:
    pid = training.wait_for(collects)["collectors"][0]["pid"]
    os.kill(pid, number)
    said = training.end(0)
    if training.system == "parallel":
        said = (training.folder / "log" / "parallel" / "parallel.txt").read_text()
    assert re.search(r"collector ?0.*(replaced|restart 1)", said), said
    assert training.result()["env_step"] == BUDGET
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("training", ["files", "ray"], indirect=True)
def test_a_learner_is_replaced(training: Training, number: int) -> None:
    pid = training.wait_for(collects)["learner"]["pid"]
    os.kill(pid, number)
    training.wait_for(lambda status: status["learner"]["pid"] not in (0, pid))
    training.end(0)
    assert training.result()["env_step"] == BUDGET
    assert not psutil.pid_exists(pid)
