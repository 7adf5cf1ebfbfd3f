"""The log: numbers arrive once converted, everywhere; no sink can stop a training."""

from __future__ import annotations

import json
import logging
import math
import os
import random
import resource
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dicore.errors import UsageError
from dicore.interfaces.logger import ILogger, LogTarget
from dicore.run.log import RESERVED, LogHub, MetricsFile, read_metrics


class Recorder:
    """A logger that remembers; it may be told to fail."""

    def __init__(self, fails_in: str = "", error: type[BaseException] = RuntimeError) -> None:
        self.calls: list[tuple[str, Any]] = []
        self._fails_in, self._error = fails_in, error

    def _note(self, method: str, value: Any = None) -> None:
        if method == self._fails_in:
            raise self._error("no route to host")
        self.calls.append((method, value))

    def open(self, target: LogTarget) -> None:
        self._note("open", target.folder)

    def log_scalars(self, scalars: Any, *, env_step: int, train_iter: int) -> None:
        self._note("scalars", (dict(scalars), env_step, train_iter))

    def log_text(self, text: str, *, channel: str = "run") -> None:
        self._note("text", (text, channel))

    def flush(self) -> None:
        self._note("flush")

    def close(self) -> None:
        self._note("close")


def lines(folder: Path) -> list[dict[str, Any]]:
    return list(read_metrics(folder / "metrics.jsonl"))


def test_numbers_reach_the_file_and_every_logger(tmp_path: Path) -> None:
    recorder = Recorder()
    assert isinstance(recorder, ILogger)
    hub = LogHub(LogTarget(tmp_path), [recorder])
    hub.log_scalars({"a/x": 1, "a/y": np.float32(2.5)}, env_step=10, train_iter=3)
    hub.log_scalars({"a/x": True}, env_step=20, train_iter=6)
    hub.close()
    hub.close()
    first, second = lines(tmp_path)
    assert {k: first[k] for k in ("step", "train_iter", "a/x", "a/y")} == {
        "step": 10,
        "train_iter": 3,
        "a/x": 1.0,
        "a/y": 2.5,
    }
    assert 0 <= first["time"] <= second["time"] < 60
    assert recorder.calls == [
        ("open", tmp_path),
        ("scalars", ({"a/x": 1.0, "a/y": 2.5}, 10, 3)),
        ("scalars", ({"a/x": 1.0}, 20, 6)),
        ("close", None),
    ]


def test_tensors_are_converted_here(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    recorder = Recorder()
    hub = LogHub(LogTarget(tmp_path), [recorder])
    values = {"a": torch.tensor(1.5, requires_grad=True), "b": torch.ones(1), "c": np.ones((1, 1))}
    hub.log_scalars(values, env_step=0, train_iter=0)
    hub.close()
    (_, (seen, _, _)) = recorder.calls[1]
    assert seen == {"a": 1.5, "b": 1.0, "c": 1.0}
    assert {type(value) for value in seen.values()} == {float}


def test_what_is_no_number_is_left_out_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hub = LogHub(LogTarget(tmp_path))
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            hub.log_scalars(
                {"ok": 1.0, "vector": np.ones(3), "word": "x", "step": 1, "none": None},
                env_step=0,
                train_iter=0,
            )
    hub.close()
    assert [set(line) - {"step", "train_iter", "time"} for line in lines(tmp_path)] == [{"ok"}] * 2
    assert sorted(record.getMessage().split("'")[1] for record in caplog.records) == [
        "step",
        "vector",
        "word",
    ]


@settings(max_examples=100, deadline=None)
@given(
    scalars=st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda tag: tag not in RESERVED),
        st.floats(),
        min_size=1,
    )
)
def test_every_float_comes_back(
    scalars: dict[str, float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """nan and the infinities are strings in the file, which `float` and `Number` read."""
    path = tmp_path_factory.mktemp("m") / "metrics.jsonl"
    file = MetricsFile(path)
    file.log_scalars(scalars, env_step=2**40, train_iter=1)
    file.close()
    raw = path.read_text().removesuffix("\n")
    strict = json.loads(raw, parse_constant=lambda word: pytest.fail(f"bare {word} in the file"))
    (line,) = read_metrics(path)
    assert line["step"] == 2**40
    for tag, value in scalars.items():
        assert repr(float(strict[tag])).lstrip("-") == repr(value).lstrip("-")
        assert line[tag] == value or math.isnan(value)


def test_a_line_cut_off_by_a_crash_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2, "a')
    assert [line["step"] for line in read_metrics(path)] == [1]
    path.write_text('{"step": 1\n{"step": 2}\n')
    with pytest.raises(UsageError, match="line 1"):
        list(read_metrics(path))


@pytest.mark.parametrize("method", ["open", "scalars", "text", "flush", "close"])
@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_a_failing_logger_is_switched_off_once(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    method: str,
    error: type[BaseException],
) -> None:
    """R-J08."""
    bad, good = Recorder(fails_in=method, error=error), Recorder()
    with caplog.at_level(logging.WARNING):
        hub = LogHub(LogTarget(tmp_path), [bad, good])
        for _ in range(3):
            hub.log_scalars({"a": 1.0}, env_step=0, train_iter=0)
            hub.log_text("hello")
            hub.flush()
        hub.close()
    assert len(caplog.records) == 1
    assert f"Recorder is disabled: {error.__name__}: no route to host" in caplog.text
    assert len(good.calls) == 11
    assert len(lines(tmp_path)) == 3


def test_what_a_logger_draws_at_its_first_call_is_given_back(tmp_path: Path) -> None:
    """It imports its package there, and some draw when they are imported."""

    class Drawing(Recorder):
        def _note(self, method: str, value: Any = None) -> None:
            random.random()

    state = random.getstate()
    hub = LogHub(LogTarget(tmp_path), [Drawing()])
    hub.log_scalars({"x": 1.0}, env_step=1, train_iter=1)
    hub.close()
    assert random.getstate() == state


def test_a_disk_that_refuses_the_metrics_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "log").write_text("a file in the way")
    recorder = Recorder()
    hub = LogHub(LogTarget(tmp_path / "log"), [recorder])
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            hub.log_scalars({"a": 1.0}, env_step=0, train_iter=0)
            hub.log_text("x")
    assert len(caplog.records) == 2
    assert [name for name, _ in recorder.calls] == ["open", "scalars", "text", "scalars", "text"]


def test_texts_have_a_file_for_each_part(tmp_path: Path) -> None:
    hub = LogHub(LogTarget(tmp_path))
    hub.log_text("first\n", channel="learner")
    hub.log_text("second é\ud800", channel="learner")
    hub.log_text("alone")
    hub.close()
    assert [line[22:] for line in (tmp_path / "learner/learner.txt").read_text().splitlines()] == [
        "first",
        "second é?",
    ]
    assert (tmp_path / "run/run.txt").read_text().endswith("] alone\n")


def test_histograms_and_progress_reach_those_who_can(tmp_path: Path) -> None:
    class Able(Recorder):
        def log_histogram(self, tag: str, values: Any, *, env_step: int, train_iter: int) -> None:
            self.calls.append((tag, values.tolist()))

        def log_progress(self, **counters: int) -> None:
            self.calls.append(counters)

    plain, able = Recorder(), Able()
    hub = LogHub(LogTarget(tmp_path), [plain, able])
    hub.log_histogram("p", np.array([[1, 2]]), env_step=0, train_iter=0)
    weight = pytest.importorskip("torch").ones(2, requires_grad=True)
    hub.log_histogram("w", weight, env_step=0, train_iter=0)
    hub.log_progress(env_step=5, train_iter=2)
    told = [("p", [1.0, 2.0]), ("w", [1.0, 1.0]), {"env_step": 5, "train_iter": 2}]
    assert able.calls[1:] == told
    assert len(plain.calls) == 1


# ---- failures that pass


def steps(folder: Path) -> list[int]:
    return [line["step"] for line in lines(folder)]


def test_a_disk_that_refuses_for_a_moment_costs_no_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """R-C16, J08: half of a line got through; it is cut, and all lines come after it."""
    hub = LogHub(LogTarget(tmp_path))
    hub.log_scalars({"a": 0.0}, env_step=0, train_iter=0)
    limit = (tmp_path / "metrics.jsonl").stat().st_size + 10
    with caplog.at_level(logging.WARNING), small_files(limit):
        for step in (1, 2):
            hub.log_scalars({"a": 0.0}, env_step=step, train_iter=0)
            assert hub.state_dict()["size"] <= limit
    assert (tmp_path / "metrics.jsonl").stat().st_size == limit
    hub.log_scalars({"a": 0.0}, env_step=3, train_iter=0)
    assert steps(tmp_path) == [0, 1, 2, 3]
    hub.close()
    assert len(caplog.records) == 1
    assert "metrics.jsonl is not written for now: No space left" in caplog.text


@contextmanager
def small_files(limit: int) -> Iterator[None]:
    """The process can write no file beyond `limit` bytes."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)


def test_half_a_line_of_a_killed_run_is_cut_before_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2, "a')
    hub = LogHub(LogTarget(tmp_path))
    hub.log_scalars({"a": 0.0}, env_step=3, train_iter=0)
    hub.close()
    assert steps(tmp_path) == [1, 3]


def test_logs_that_are_removed_are_made_again_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """J08: `rm -rf RUN/log` during a training."""
    hub = LogHub(LogTarget(tmp_path / "log"))
    with caplog.at_level(logging.WARNING):
        for step in range(3):
            hub.log_scalars({"a": 0.0}, env_step=step, train_iter=0)
            hub.log_text("hello", channel="learner")
            if step == 0:
                shutil.rmtree(tmp_path / "log")
    hub.close()
    assert steps(tmp_path / "log") == [1, 2]
    assert len((tmp_path / "log/learner/learner.txt").read_text().splitlines()) == 2
    assert [each.getMessage().split(";")[0] for each in caplog.records] == [
        f"{tmp_path}/log/metrics.jsonl was removed during training"
    ]


@pytest.mark.parametrize("value", [10**400, object(), np.ones(2), 1 + 2j])
def test_a_value_of_any_kind_ends_nothing(value: object, tmp_path: Path) -> None:
    hub = LogHub(LogTarget(tmp_path))
    hub.log_scalars({"a": value, ("b",): 1.0, "c": 2.0}, env_step=np.int64(4), train_iter=0)  # type: ignore[dict-item]
    hub.close()
    (line,) = lines(tmp_path)
    assert {**line, "time": 0} == {"step": 4, "train_iter": 0, "time": 0, "c": 2.0}


@pytest.mark.parametrize("make", ["link", "pipe", "folder"])
def test_what_is_no_plain_file_is_not_written(
    make: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """R-E04."""
    path, other = tmp_path / "metrics.jsonl", tmp_path / "other"
    other.write_text("mine")
    {"link": lambda: path.symlink_to(other), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir}[
        make
    ]()
    hub = LogHub(LogTarget(tmp_path))
    hub.log_scalars({"a": 1.0}, env_step=0, train_iter=0)
    with pytest.raises(UsageError, match="cannot be written"):
        hub.load_state_dict({"size": 0, "time": 0.0})
    hub.close()
    assert len(caplog.records) == 1
    assert other.read_text() == "mine"


def test_numbers_logged_after_a_checkpoint_are_removed_by_going_on_from_it(tmp_path: Path) -> None:
    """They would be there twice; the clock goes on from the checkpoint, too."""
    hub = LogHub(LogTarget(tmp_path))
    hub.log_scalars({"a": 1.0}, env_step=1, train_iter=1)
    state = hub.state_dict()
    hub.log_scalars({"a": 2.0}, env_step=2, train_iter=2)
    hub.close()
    hub = LogHub(LogTarget(tmp_path))
    hub.load_state_dict({**state, "time": 500.0})
    hub.log_scalars({"a": 3.0}, env_step=2, train_iter=2)
    hub.close()
    assert [line["a"] for line in lines(tmp_path)] == [1.0, 3.0]
    assert lines(tmp_path)[-1]["time"] >= 500.0


@pytest.mark.parametrize("line", ["[1]", "7", '"text"', "null", "{", "no json"])
def test_a_line_of_metrics_that_is_no_object_is_shown(line: str, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text(f"{{}}\n{line}\n")
    with pytest.raises(UsageError) as caught:
        list(read_metrics(tmp_path / "metrics.jsonl"))
    expected = f"{tmp_path / 'metrics.jsonl'}, line 2: not a JSON object: {line.encode()!r}"
    assert caught.value.message == expected
