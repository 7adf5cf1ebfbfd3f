"""Loggers in a process of their own: no failure and no wait of theirs reaches the training."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from dicore.interfaces.logger import LogTarget
from dicore.run.log import LogHub
from dicore_plugins.loggers import AlertLogger, ChildLogger, CometLogger, MlflowLogger, WandbLogger

pytest.importorskip("psutil")
WRITER = "tests.plugins.loggers.test_child"


class Recorder:
    """A writer that appends what it is told to a file, or misbehaves."""

    def open(self, *, folder: str, **_: Any) -> None:
        self.path = Path(folder) / "told.txt"

    def log(self, **told: Any) -> None:
        if told.get("do") == "fail":
            raise OSError("the server is gone")
        if told.get("do") == "hang":
            time.sleep(60)
        with self.path.open("a") as file:
            file.write(json.dumps(told) + "\n")

    def close(self) -> None:
        self.path.with_name("closed").touch()


class Told(ChildLogger):
    writer = f"{WRITER}:Recorder"

    def __init__(self) -> None:
        super().__init__(close_s=60)


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))


def wait_for(condition: Callable[[], object], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_all_messages_arrive_in_order(tmp_path: Path) -> None:
    logger = Told()
    logger.open(LogTarget(tmp_path))
    for step in range(3000):
        logger.log_scalars({"x": 1.0}, env_step=step, train_iter=0)
    logger.close()
    lines = (tmp_path / "told.txt").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == list(range(3000))
    assert (tmp_path / "closed").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_of_a_batch_system_lose_no_message(number: int, tmp_path: Path) -> None:
    """They are sent to all processes of a job; the child ends when the training does."""
    logger = Told()
    logger.open(LogTarget(tmp_path))
    logger.log_scalars({"x": 1.0}, env_step=1, train_iter=0)
    child = logger._child
    assert child is not None
    wait_for((tmp_path / "told.txt").exists)
    os.kill(child.pid, number)
    logger.log_scalars({"x": 1.0}, env_step=2, train_iter=0)
    logger.close()
    assert len((tmp_path / "told.txt").read_text().splitlines()) == 2
    assert (tmp_path / "closed").exists()


def test_a_process_that_hangs_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dicore_plugins.loggers.child._MAX_WAITING", 50)
    logger = Told()
    logger.close_s = 0.2
    logger.open(LogTarget(tmp_path))
    logger.send("log", do="hang")
    child = logger._child
    assert child is not None
    for step in range(40_000):  # more than the pipe holds
        logger.log_scalars({"x": 1.0}, env_step=step, train_iter=0)
    logger.close()
    os.kill(child.pid, signal.SIGKILL)
    os.waitpid(child.pid, 0)
    texts = [record.getMessage() for record in caplog.records]
    assert [("dropped" in text, "goes on" in text, "not logged" in text) for text in texts] == [
        (True, False, False), (False, True, False), (False, False, True)
    ]  # fmt: skip


def test_a_process_that_fails_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logger = Told()
    hub = LogHub(LogTarget(tmp_path), [logger])
    logger.send("log", do="fail")
    assert logger._child is not None
    wait_for(lambda: logger._child is None or logger._child.poll() is not None)
    for step in range(3):
        hub.log_scalars({"x": 1.0}, env_step=step, train_iter=0)
    hub.close()
    [text] = [record.getMessage() for record in caplog.records if "disabled" in record.msg]
    assert "OSError: the server is gone" in text


def test_the_process_ends_with_a_training_that_is_killed(tmp_path: Path) -> None:
    program = f"""
import os, signal
from pathlib import Path
from dicore.interfaces.logger import LogTarget
from {WRITER} import Told
logger = Told()
logger.open(LogTarget(Path({str(tmp_path)!r})))
logger.log_scalars({{"x": 1.0}}, env_step=1, train_iter=0)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    wait_for((tmp_path / "closed").exists)
    assert len((tmp_path / "told.txt").read_text().splitlines()) == 1


def log_some(logger: Any, folder: Path, *, resumed_at: tuple[int, int] | None, step: int) -> None:
    folder.mkdir(exist_ok=True)
    config = {"config": {"policy": {"type": "dqn", "learn": {"batch_size": 64}}}}
    (folder.parent / "config.json").write_text(json.dumps(config))
    logger.open(LogTarget(folder, "runs/x", resumed_at=resumed_at))
    scalars = {"evaluator/return_mean": 21.5, "odd(name)": float("nan")}
    logger.log_scalars(scalars, env_step=step, train_iter=3)
    logger.close()


def test_mlflow_has_metrics_and_options(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    if find_spec("mlflow") is None:
        pytest.skip("needs mlflow")
    log_some(MlflowLogger(close_s=120), tmp_path / "log", resumed_at=None, step=8)
    log_some(MlflowLogger(close_s=120), tmp_path / "log", resumed_at=(8, 3), step=16)
    assert not caplog.records
    [run] = (tmp_path / "log/mlflow").glob("[1-9]*/[0-9a-f]*/")
    assert (tmp_path / "log/mlflow/run_id.txt").read_text().strip() == run.name
    facts = yaml.safe_load((run / "meta.yaml").read_text())
    assert (facts["run_name"], facts["status"]) == ("runs/x", 3)  # FINISHED
    assert (run / "params/policy.learn.batch_size").read_text() == "64"
    curve = (run / "metrics/evaluator/return_mean").read_text().splitlines()
    assert [line.split()[1:3] for line in curve] == [["21.5", "8"], ["21.5", "16"]]
    assert (run / "metrics/odd_name_").is_file()


def test_wandb_offline_writes_a_run_that_can_be_uploaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if find_spec("wandb") is None:
        pytest.skip("needs wandb")
    log_some(WandbLogger(close_s=120), tmp_path / "log", resumed_at=None, step=8)
    assert not caplog.records
    [file] = (tmp_path / "log/wandb").glob("offline-run-*/run-*.wandb")
    assert (tmp_path / "log/wandb/run_id.txt").read_text().strip() in file.name
    content = file.read_bytes()
    assert b"evaluator/return_mean" in content
    assert b"batch_size" in content


def test_comet_offline_writes_an_archive_that_can_be_uploaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if find_spec("comet_ml") is None:
        pytest.skip("needs comet_ml")
    log_some(CometLogger(close_s=120), tmp_path / "log", resumed_at=None, step=8)
    assert not caplog.records
    [file] = (tmp_path / "log/comet").glob("*.zip")
    assert (tmp_path / "log/comet/run_id.txt").read_text().strip() in file.name
    with zipfile.ZipFile(file) as archive:
        told = archive.read("messages.json").decode()
    assert "evaluator/return_mean" in told
    assert "batch_size" in told


@pytest.mark.parametrize(
    ("status", "told"), [("failed", "failed"), ("running", "killed")], ids=["failed", "killed"]
)
def test_an_alert_tells_how_the_run_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: str, told: str
) -> None:
    """`alert` runs the command when `run.json` holds the end, or never will."""
    result = {"best_return": 12.5, "env_step": 80, "train_iter": 9, "wall_s": 1.5, "stop": False}
    document = {"status": status, "error": "ValueError: no", "result": result}
    (tmp_path / "log").mkdir()
    (tmp_path / "run.json").write_text(json.dumps(document))
    monkeypatch.setenv(
        "DICORE_ON_FINISH", 'echo "$DICORE_STATUS $DICORE_BEST_RETURN" > "$DICORE_RUN/said"'
    )
    if told == "killed":
        gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"],
                              capture_output=True, check=True)  # fmt: skip
        monkeypatch.setattr(os, "getpid", lambda: int(gone.stdout))
    logger = AlertLogger()
    logger.open(LogTarget(tmp_path / "log", "runs/x"))
    monkeypatch.undo()
    logger.close()
    wait_for(lambda: "exit code 0" in (tmp_path / "log/alert/alert.txt").read_text())
    assert (tmp_path / "said").read_text() == f"{told} 12.5\n"


def test_an_alert_without_a_command_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DICORE_ON_FINISH", raising=False)
    logger = AlertLogger()
    logger.open(LogTarget(tmp_path))
    logger.close()
    assert "DICORE_ON_FINISH is not set" in caplog.text
    assert list(tmp_path.iterdir()) == []
