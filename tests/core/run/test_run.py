"""Run, folder and record: what one training leaves behind, and when."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dicore.errors import (
    CheckpointCorruptError,
    CheckpointWriteError,
    RunLockedError,
    UsageError,
)
from dicore.run import checkpoint_store
from dicore.run.folder import RunFolder, RunLock
from dicore.run.random import Streams
from dicore.run.run import Limits, Run, cpu_seconds
from dicore.testing.failpoints import armed


class Counter:
    """A part with state, and the counters of a learner."""

    def __init__(self, value: int = 0) -> None:
        self.train_iter = value
        self.envstep = -1

    def state_dict(self) -> dict[str, Any]:
        return {"value": np.array(self.train_iter)}

    def load_state_dict(self, state: Any) -> None:
        self.train_iter = int(state["value"])


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    folder = RunFolder.prepare(tmp_path / "x")
    components = {"policy": {"type": "dqn", "dist": "d", "version": "1", "target": "m:C"}}
    made = Run(folder, Streams(3), argv=["dicore", "train"], components=components)
    made.start()
    yield made
    made.finish()


def register(run: Run, learner: Counter) -> None:
    counts = {"train_iter": lambda: learner.train_iter, "env_step": lambda: learner.envstep}
    run.register("learner", learner, counts=counts)


def record(run: Run) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(run.folder.metadata.read_text())
    return content


# ---- folder


def begun(folder: Path, config: str) -> Run:
    folder.mkdir()
    (folder / "config.json").write_text(config)
    made = Run(folder, Streams(3))
    made.register("learner", Counter(7))
    made.start()
    made.log.log_scalars({"a": 1}, env_step=1, train_iter=1)
    return made


def test_a_folder_that_was_removed_is_made_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = begun(tmp_path / "x", '{"one": 1}')
    shutil.rmtree(run.folder.path)
    run.save_checkpoint("iteration_1")
    run.save_checkpoint("iteration_2")
    assert run.folder.config.read_text() == '{"one": 1}'
    assert [each.message.count("was removed while training") for each in caplog.records] == [1]
    with pytest.raises(RunLockedError):
        RunLock(run.folder.path)
    run.log.log_scalars({"a": 2}, env_step=2, train_iter=2)
    assert run.folder.metrics.read_text().count("\n") == 1
    run.finish()
    assert record(run)["status"] == "done"
    again = Run(run.folder, Streams(3), resume=True)
    assert again.resumed_from == "iteration_2"
    again.abandon()


@pytest.mark.parametrize("over", [False, True])
def test_a_folder_that_another_run_has_by_now_is_left_alone(
    over: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = begun(tmp_path / "x", '{"one": 1}')
    shutil.rmtree(run.folder.path)
    other = begun(tmp_path / "x", '{"two": 2}')
    if over:
        other.finish()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(RunLockedError, match="x: "):
        run.save_checkpoint("final")
    run.finish("failed")
    assert "is not written" in caplog.text
    assert sorted(tmp_path.rglob("*")) == before
    assert over or other.save_checkpoint("final") is not None
    other.finish()
    assert record(other)["status"] == "done"


def test_a_lock_that_alone_was_removed_is_taken_again(run: Run) -> None:
    (run.folder.path / ".lock").unlink()
    assert run.save_checkpoint("iteration_1") is not None
    with pytest.raises(RunLockedError):
        RunLock(run.folder.path)


def test_a_run_that_fails_says_how_far_it_came(run: Run) -> None:
    learner = Counter(12)
    learner.envstep = 34
    register(run, learner)
    run.finish("failed", "boom")
    assert (record(run)["result"]["train_iter"], record(run)["result"]["env_step"]) == (12, 34)


# ---- run.json


def test_run_json_before_and_after(run: Run) -> None:
    before = record(run)
    assert before["result"] is None
    assert before["status"] == "running"
    assert before["seed"] == 3
    assert before["argv"] == ["dicore", "train"]
    assert before["components"]["policy"] == {
        "type": "dqn",
        "dist": "d",
        "version": "1",
        "target": "m:C",
    }
    assert before["versions"]["numpy"] == np.__version__

    run.first_step()
    run.set_result(stop=True, train_iter=5, env_step=50, best_return=np.float32(480.0))
    run.finish()

    after = record(run)
    assert {key: after[key] for key in before if key not in ("status", "result", "finished")} == {
        key: before[key] for key in before if key not in ("status", "result", "finished")
    }
    assert after["status"] == "done"
    result = after["result"]
    assert {"stop", "train_iter", "env_step", "best_return", "wall_s", "cpu_s"} == set(result)
    assert result["stop"] is True
    assert (result["train_iter"], result["env_step"], result["best_return"]) == (5, 50, 480.0)


def test_the_clock_counts_from_the_first_step_to_before_the_final_save(run: Run) -> None:
    time.sleep(0.05)
    assert run.clock.seconds == 0.0
    begun = time.perf_counter()
    run.first_step()
    time.sleep(0.02)
    run.first_step()
    run.stop_clock()
    most = time.perf_counter() - begun
    stopped = run.clock.seconds
    time.sleep(0.05)
    run.stop_clock()
    assert run.finish().wall_s == pytest.approx(stopped, abs=1e-5)
    assert 0.02 <= stopped <= most + 1e-3


def test_a_result_that_is_not_finite_is_still_json(run: Run) -> None:
    run.set_result(best_return=float("-inf"))
    run.finish("failed", "RuntimeError: x")
    assert record(run)["result"]["best_return"] is None
    assert record(run)["error"] == "RuntimeError: x"


def test_the_first_finish_counts(run: Run) -> None:
    run.finish("interrupted")
    run.finish("done")
    assert record(run)["status"] == "interrupted"


# ---- state


def test_every_registered_part_is_saved_and_restored(run: Run) -> None:
    learner, buffer = Counter(7), Counter(9)
    run.register("learner", learner)
    run.register("buffer", buffer, bulky=True)
    drawn = run.streams.stream("a").random()
    run.save_checkpoint("iteration_7.pth.tar")
    expected = run.streams.stream("a").random()

    learner.train_iter = buffer.train_iter = 0
    run.load_state_dict(run.store.load("iteration_7"))

    assert (learner.train_iter, buffer.train_iter) == (7, 9)
    assert run.streams.stream("a").random() == expected != drawn


def test_best_leaves_out_what_is_only_bulky(run: Run) -> None:
    run.register("learner", Counter(7))
    run.register("buffer", Counter(9), bulky=True)
    run.save_best(480.0)
    assert set(run.store.load("best")) == {"learner", "run", "streams"}
    assert run.result.best_return == 480.0
    with pytest.raises(CheckpointCorruptError, match="lacks buffer"):
        run.load_state_dict(run.store.load("best"))


def test_counters_of_the_parts_say_which_checkpoint_is_newer(run: Run) -> None:
    learner = Counter(7)
    register(run, learner)
    run.save_checkpoint("best")
    learner.train_iter = 3
    run.save_checkpoint("final")
    assert run.store.latest() == "best"


def test_what_cannot_be_registered_is_refused(run: Run) -> None:
    run.register("learner", part := Counter())
    run.register("learner", part)
    with pytest.raises(UsageError, match="another part"):
        run.register("learner", Counter())
    with pytest.raises(UsageError, match="unknown counter 'epoch'"):
        run.register("learner", part, counts={"epoch": int})
    with pytest.raises(UsageError, match="state_dict"):
        run.register("x", object())  # type: ignore[arg-type]


def full_disk(point: str) -> None:
    if point == "write":
        raise OSError(28, "No space left on device")


def test_a_full_disk_beside_the_training_reaches_it(
    run: Run, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a thread could not write is warned of, tried again, and ends the run as elsewhere."""
    monkeypatch.setattr(checkpoint_store, "BESIDE_BYTES", 1)
    monkeypatch.setattr(checkpoint_store, "SAVE_EVERY_S", 0.0)
    run.register("learner", Counter(1))
    run.deferring = True
    run.first_step()

    def step() -> None:
        run.save_due(1)
        if run.store._writing is not None:
            wait([run.store._writing])

    with armed(full_disk), caplog.at_level(logging.WARNING):
        step()  # begins the first
        step()
        step()
        assert caplog.text.count("No space left") == 2
        with pytest.raises(CheckpointWriteError):
            step()
    step()
    run.finish()
    assert run.store.resumable() == "latest"


def test_a_full_disk_is_survived_twice(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    """R-D02: warned, counted in the metrics, given up at the third in a row."""
    run.register("learner", Counter(1))
    with armed(full_disk), caplog.at_level(logging.WARNING):
        assert run.save_checkpoint("iteration_1") is None
        assert run.save_checkpoint("iteration_2") is None
    assert caplog.text.count("No space left") == 2
    assert run.save_checkpoint("iteration_3") is not None
    with armed(full_disk):
        assert run.save_checkpoint("iteration_4") is None
        assert run.save_checkpoint("iteration_5") is None
        with pytest.raises(CheckpointWriteError):
            run.save_checkpoint("iteration_6")
    lines = [json.loads(line) for line in run.folder.metrics.read_text().splitlines()]
    assert [line["run/failed_saves"] for line in lines] == [1, 2, 1, 2, 3]


def test_a_final_save_that_fails_is_an_error_at_once(run: Run) -> None:
    with armed(full_disk), pytest.raises(CheckpointWriteError):
        run.save_checkpoint("final")


def test_a_state_that_cannot_be_stored_is_an_error_at_once(run: Run) -> None:
    with pytest.raises(CheckpointWriteError, match="cannot store"):
        run.save_checkpoint("iteration_1", {"x": object()})


def test_limits_reach_the_loggers(tmp_path: Path) -> None:
    limits = Limits(max_env_step=5, stop_value=475.0)
    made = Run(RunFolder.prepare(tmp_path / "x"), Streams(0), limits=limits)
    assert made.log.target.max_env_step == 5
    assert made.log.target.stop_value == 475.0
    assert not made.stop_requested
    made.stop.request()
    assert made.stop_requested


def test_a_run_starts_nothing_in_the_background(run: Run) -> None:
    program = """
import sys, threading
from dicore.run.folder import RunFolder
from dicore.run.random import Streams
from dicore.run.run import Run
run = Run(RunFolder.prepare(sys.argv[1]), Streams(0))
run.start(); run.log.log_scalars({"a/b": 1.0}, env_step=0, train_iter=0); run.finish()
assert threading.active_count() == 1
assert not {"torch", "rich", "tensorboardX", "gymnasium"} & set(sys.modules)
"""
    path = run.folder.path / "other"
    subprocess.run([sys.executable, "-c", program, str(path)], check=True)


def test_public_names_load_on_first_use() -> None:
    program = """
import sys, dicore.run
assert "numpy" not in sys.modules
for name in dicore.run.__all__:
    assert getattr(dicore.run, name).__name__ == name
try:
    dicore.run.nonsense
except AttributeError as error:
    assert "nonsense" in str(error)
else:
    raise SystemExit("found nonsense")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_is_logged_before_a_checkpoint_survives_a_kill_after_it(tmp_path: Path) -> None:
    """R-C16: curves of a logger that buffers have no holes after a resume."""

    class Buffering:
        def __init__(self) -> None:
            self.kept: list[int] = []
            self.written: list[int] = []

        def open(self, target: Any) -> None: ...
        def log_text(self, text: str, *, channel: str = "run") -> None: ...
        def close(self) -> None: ...

        def log_scalars(self, scalars: Any, *, env_step: int, train_iter: int) -> None:
            self.kept.append(env_step)

        def flush(self) -> None:
            self.written += self.kept

    logger = Buffering()
    run = Run(RunFolder.prepare(tmp_path / "x"), Streams(0), loggers=[logger])
    run.start()
    run.log.log_scalars({"a": 1.0}, env_step=5, train_iter=1)
    run.save_checkpoint("iteration_1")
    assert logger.written == [5]
    run.finish()


def test_the_cpu_seconds_of_processes_of_processes_count() -> None:
    loop = "sh -c 'while :; do :; done' & wait"
    process = subprocess.Popen(["sh", "-c", loop], start_new_session=True)
    try:
        seconds = cpu_seconds()
        own, deadline = time.process_time(), time.monotonic() + 60
        while cpu_seconds() - seconds < time.process_time() - own + 0.05:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
