"""Event files are what TensorBoard itself reads."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.interfaces.logger import ILogger, LogTarget, SupportsHistograms
from dicore.run.log import LogHub
from dicore_plugins.loggers.tensorboard import TensorBoardLogger
from tests.conftest import printed


@pytest.fixture(autouse=True)
def packages() -> None:
    """Imported by the process that runs these tests, not by each that collects them."""
    pytest.importorskip("tensorboard")
    pytest.importorskip("tensorboardX")


def read(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder))
    accumulator.Reload()
    return accumulator


def curve(folder: Path, tag: str) -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in read(folder).Scalars(tag)]


def log_some(logger: TensorBoardLogger, folder: Path) -> None:
    logger.open(LogTarget(folder / "log"))
    logger.log_scalars({"a/x": 1.5, "a/y": float("nan")}, env_step=100, train_iter=7)
    logger.log_scalars({"a/x": 2.5}, env_step=200, train_iter=14)
    logger.log_histogram("p", np.array([1.0, 2.0, np.inf]), env_step=200, train_iter=14)
    logger.log_histogram("q", np.array([np.nan]), env_step=200, train_iter=14)
    logger.flush()
    logger.close()
    logger.close()


def test_curves_stand_against_env_steps(tmp_path: Path) -> None:
    logger = TensorBoardLogger()
    assert isinstance(logger, ILogger)
    assert isinstance(logger, SupportsHistograms)
    log_some(logger, tmp_path)
    assert curve(tmp_path / "log", "a/x") == [(100, 1.5), (200, 2.5)]
    assert np.isnan(curve(tmp_path / "log", "a/y")[0][1])
    found = read(tmp_path / "log")
    assert found.Tags()["histograms"] == ["p"]
    assert found.Histograms("p")[0].histogram_value.num == 2


def test_tensorboard_finds_the_run_below_its_folder(tmp_path: Path) -> None:
    """What `tensorboard --logdir runs/x` does first."""
    from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer

    log_some(TensorBoardLogger(), tmp_path)
    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(tmp_path))
    multiplexer.Reload()
    assert list(multiplexer.Runs()) == ["log"]
    assert [event.step for event in multiplexer.Tensors("log", "a/x")] == [100, 200]


def test_both_axes_are_two_runs(tmp_path: Path) -> None:
    log_some(TensorBoardLogger(axis="both"), tmp_path)
    assert curve(tmp_path / "log/env_step", "a/x") == [(100, 1.5), (200, 2.5)]
    assert curve(tmp_path / "log/train_iter", "a/x") == [(7, 1.5), (14, 2.5)]


@pytest.mark.parametrize(
    ("axis", "folder", "steps"),
    [("both", "env_step", [100, 200, 250]), ("both", "train_iter", [7, 14, 18])],
)
def test_curves_of_a_resumed_run_do_not_overlap(
    tmp_path: Path, axis: Any, folder: str, steps: list[int]
) -> None:
    """R-C16: what came after the checkpoint is left out, up to the step from which it goes on."""
    log = tmp_path / "log"
    killed = TensorBoardLogger(axis=axis)
    killed.open(LogTarget(log))
    for step, train_iter in ((100, 7), (200, 14), (300, 21), (400, 28)):
        killed.log_scalars({"a/x": 1.0}, env_step=step, train_iter=train_iter)
    killed.close()
    resumed = TensorBoardLogger(axis=axis)
    resumed.open(LogTarget(log, resumed_at=(210, 15)))
    resumed.log_scalars({"a/x": 2.0}, env_step=250, train_iter=18)
    resumed.close()
    assert len(list((log / folder).iterdir())) == 2  # though names have whole seconds
    assert [step for step, _ in curve(log / folder, "a/x")] == steps


def test_nothing_is_made_before_the_first_number(tmp_path: Path) -> None:
    logger = TensorBoardLogger()
    logger.open(LogTarget(tmp_path / "log"))
    logger.log_text("hello")
    logger.flush()
    logger.close()
    assert not (tmp_path / "log").exists()


def test_on_a_full_disk_training_goes_on_and_so_do_the_curves_once_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-J08: nothing waits for a thread that has died; one warning, no files without events."""
    from tensorboardX.record_writer import RecordWriter

    logger = TensorBoardLogger(flush_secs=0)
    hub = LogHub(LogTarget(tmp_path / "log"), [logger])
    before = threading.active_count()
    hub.log_scalars({"a/x": 1.0}, env_step=0, train_iter=0)
    assert threading.active_count() == before
    writer = logger._files["env_step"]._writer
    writer.close()
    writer._writer = full = Path("/dev/full").open("wb")  # noqa: SIM115 - the hub has to close it
    no_room = Path("/dev/full").write_bytes
    with monkeypatch.context() as patched:
        patched.setattr(RecordWriter, "write", lambda self, data: no_room(data))
        for step in range(1, 50):
            hub.log_scalars({"a/x": 1.0}, env_step=step, train_iter=step)
    assert full.closed
    for step in range(50, 100):
        hub.log_scalars({"a/x": 1.0}, env_step=step, train_iter=step)
    hub.close()
    assert [each.levelname for each in caplog.records] == ["WARNING"]
    assert "No space left on device" in caplog.text
    assert len((tmp_path / "log" / "metrics.jsonl").read_text().splitlines()) == 100
    assert curve(tmp_path / "log", "a/x") == [(step, 1.0) for step in (0, *range(50, 100))]
    assert len(list((tmp_path / "log").glob("events.*"))) == 2


def test_files_that_are_removed_are_made_again(tmp_path: Path) -> None:
    logger = TensorBoardLogger()
    logger.open(LogTarget(tmp_path / "log"))
    for step in (1, 2):
        logger.log_scalars({"a/x": 1.0}, env_step=step, train_iter=step)
        if step == 1:
            shutil.rmtree(tmp_path / "log")
            logger.flush()
    logger.close()
    assert curve(tmp_path / "log", "a/x") == [(2, 1.0)]


TWICE = """
import random
from pathlib import Path
import gymnasium
from dicore.run.launch import launch
from dicore.run.log import read_metrics

class Drawing(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.low, {}

    def step(self, action):
        return self.observation_space.low, random.random(), random.random() < 0.3, False, {}

gymnasium.register("Drawing-v0", Drawing)
for name in ("a", "b"):
    launch(env="Drawing-v0", policy="dqn", exp_name=name, overrides=[
        "env.collector_env_num=1", "env.evaluator_env_num=1", "env.n_evaluator_episode=2",
        "policy.learn.batch_size=4", "policy.collect.n_sample=8", "pipeline.max_env_step=32",
        "env.stop_value=1e9", "policy.eval.evaluator.eval_freq=8", "pipeline.logger=[tensorboard]",
    ])
found = [[{k: v for k, v in line.items() if "time" not in k and "per_s" not in k}
          for line in read_metrics(Path(name) / "log" / "metrics.jsonl")] for name in ("a", "b")]
assert any("evaluator/return_mean" in line for line in found[0])
assert found[0] == found[1], found
"""


def test_its_packages_draw_nothing_from_the_training(tmp_path: Path) -> None:
    """The first training of a process imports them, the second finds them."""
    done = subprocess.run(
        [sys.executable, "-c", TWICE], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_package_that_is_there_is_imported_when_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tensorboardX imports comet_ml wherever it is installed, which takes a second."""
    (tmp_path / "comet_ml.py").write_text("open('imported', 'w')\nword = 'used'\n")
    monkeypatch.chdir(tmp_path)
    code = """
import os, sys
from pathlib import Path
from dicore.interfaces.logger import LogTarget
from dicore_plugins.loggers.tensorboard import TensorBoardLogger

logger = TensorBoardLogger()
logger.open(LogTarget(Path("log")))
from tensorboardX import comet_utils

print(os.path.exists("imported"), "comet_ml" in sys.modules, comet_utils.comet_installed)
print(comet_utils.comet_ml.word, os.path.exists("imported"))
import comet_ml

print(comet_ml.word)
"""
    assert printed(code).split() == ["False", "False", "True", "used", "True", "used"]
