"""What a run goes on from, and what it makes of folders that are broken or not to be trusted."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dicore.errors import CheckpointCorruptError, RunLockedError, UsageError
from dicore.run.folder import RunFolder, RunLock
from dicore.run.launch import TrainRequest
from dicore.run.log import MetricsFile
from dicore.run.metadata import saved_member
from dicore.run.random import Streams
from dicore.run.request import compile_resumed
from dicore.run.run import Limits, Run
from tests.core.run.test_checkpoint_io import reseal


class Part:
    """Counts, and wants its count back."""

    def __init__(self) -> None:
        self.train_iter = 0

    def state_dict(self) -> dict[str, Any]:
        return {"n": self.train_iter}

    def load_state_dict(self, state: Any) -> None:
        self.train_iter = state["n"] + 0


def begin(folder: Path, *, resume: bool = False, **wishes: Any) -> tuple[Run, Part]:
    run, part = Run(folder, Streams(0), resume=resume, **wishes), Part()
    run.register("learner", part, counts={"train_iter": lambda: part.train_iter})
    run.start()
    return run, part


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run with two complete checkpoints, at 1 and 2, and a `best` that is newer."""
    run, part = begin(RunFolder.prepare(tmp_path / "x").path)
    for n in (1, 2):
        part.train_iter = n
        run.log.log_scalars({"a": n}, env_step=n, train_iter=n)
        run.save_checkpoint(f"iteration_{n}")
        run.log.log_scalars({"b": n}, env_step=n, train_iter=n)
    part.train_iter = 3
    run.save_best(1.0)
    run.finish()
    return tmp_path / "x"


def tags(folder: Path) -> list[str]:
    lines = (folder / "log/metrics.jsonl").read_text().splitlines()
    return [next(tag for tag in json.loads(line) if tag in "ab") for line in lines]


def spoil(folder: Path, *names: str, file: str = "tensors.safetensors") -> None:
    for name in names:
        (folder / "ckpt" / name / file).write_bytes(b"")


# ---- which checkpoint


def test_a_run_goes_on_from_its_latest_complete_checkpoint(folder: Path) -> None:
    run, part = begin(folder, resume=True)
    assert (run.resumed_from, run.restore(), part.train_iter) == ("iteration_2",) * 2 + (2,)
    assert tags(folder) == ["a", "b", "a"], "what was logged after the checkpoint is cut off"
    run.finish()


def test_the_log_of_a_training_that_does_not_go_back_is_kept(folder: Path) -> None:
    before = tags(folder)
    run, part = begin(folder, resume=True)
    assert (run.restore(whole_log=True), part.train_iter) == ("iteration_2", 2)
    assert len(before) > 3
    assert tags(folder) == before
    run.log.log_scalars({"a": 1.0}, env_step=9, train_iter=9)
    run.finish()
    assert tags(folder) == [*before, "a"]


@pytest.mark.parametrize("file", ["tensors.safetensors", "manifest.json"])
def test_a_broken_one_is_passed_over_with_one_warning(
    folder: Path, file: str, caplog: pytest.LogCaptureFixture
) -> None:
    """R-D04."""
    spoil(folder, "iteration_2", file=file)
    with caplog.at_level(logging.WARNING):
        run, part = begin(folder, resume=True)
    assert len(caplog.records) == 1
    assert "iteration_1 is used instead of iteration_2" in caplog.text
    run.restore()
    assert part.train_iter == 1
    assert tags(folder) == ["a"]
    run.finish()


def test_with_nothing_there_training_begins_anew_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """R-C14: a run that died before its first checkpoint."""
    run, _ = begin(RunFolder.prepare(tmp_path / "x").path)
    run.log.log_scalars({"a": 1.0}, env_step=1, train_iter=1)
    run.finish("failed", "died")
    again, part = begin(tmp_path / "x", resume=True)
    with caplog.at_level(logging.WARNING):
        assert again.restore() is None
    assert len(caplog.records) == 1
    assert "starts from scratch" in caplog.text
    assert part.train_iter == 0
    assert tags(tmp_path / "x") == []
    assert again.log.target.resumed_at == (-1, -1), "loggers discard all that came before"
    again.finish()


def test_with_everything_broken_it_stops_with_the_reasons(folder: Path) -> None:
    """R-C14: nothing is overwritten by a training that begins anew."""
    spoil(folder, "iteration_1")
    spoil(folder, "iteration_2", file="manifest.json")
    before = (folder / "log/metrics.jsonl").read_bytes()
    with pytest.raises(CheckpointCorruptError) as caught:
        begin(folder, resume=True)
    text = str(caught.value)
    assert "iteration_1 (" in text
    assert "iteration_2 (" in text
    assert "--exist new" in caught.value.hint
    assert caught.value.exit_code == 4
    RunLock(folder).release()  # nobody holds it, though the error is still there
    assert (folder / "log/metrics.jsonl").read_bytes() == before


def test_one_looks_inside_only_with_the_lock(folder: Path) -> None:
    """R-F06."""
    first, _ = begin(folder, resume=True)
    with pytest.raises(RunLockedError, match="process "):
        Run(folder, Streams(0), resume=True)
    first.finish()
    second, _ = begin(folder, resume=True)
    second.abandon()
    assert not (folder / ".lock").exists()


# ---- states that are not to be trusted

LIES: list[Callable[[dict[str, Any]], Any]] = [
    lambda body: body["state"].update(learner={"n": "os.system"}),
    lambda body: body["state"].update(learner=7),
    lambda body: body["state"].pop("learner"),
    lambda body: body["state"]["run"].update(wall_s="long"),
    lambda body: body["state"]["run"]["log"].update(size=-1),
    lambda body: body["state"]["run"].update(log={"size": "x"}),
    lambda body: body["state"]["streams"].update(numpy={"x": {"bit_generator": "os.system"}}),
    lambda body: body["state"]["streams"].update(numpy=[1]),
    lambda body: body.update(state=[]),
    lambda body: body["facts"].update(train_iter="2"),
    lambda body: body["facts"].update(env_step=-1),
    lambda body: body.update(facts=[]),
    lambda body: body.update(versions=3),
]


@pytest.mark.parametrize("lie", LIES, ids=range(len(LIES)))
def test_a_state_with_lies_is_an_error_of_its_class(
    folder: Path, lie: Callable[[dict[str, Any]], Any]
) -> None:
    """R-E03, E04: checksums that are right prove nothing about the content."""
    for name in ("iteration_1", "iteration_2"):
        reseal(folder / "ckpt" / name, lie)
    with pytest.raises(CheckpointCorruptError):
        begin(folder, resume=True)[0].restore()


# ---- metrics


@pytest.mark.parametrize(("size", "kept"), [(0, 0), (7, 0), (8, 1), (10_007, 1), (10_009, 2)])
def test_a_metrics_file_is_cut_back_to_whole_lines(tmp_path: Path, size: int, kept: int) -> None:
    """Also where the power failed: the file may be shorter than a state says, or torn."""
    lines = ['{"a":1}\n', '{"b":"' + "x" * 9_992 + '"}\n', '{"c":']
    assert [len(line) for line in lines] == [8, 10_001, 5]
    file = tmp_path / "metrics.jsonl"
    for state in (size, 2 * size if kept == 2 else size):
        file.write_text("".join(lines))
        MetricsFile(file).rewind({"size": state, "time": 3.0})
        assert file.read_text() == "".join(lines[:kept])


# ---- limits


def test_limits_given_once_hold_for_the_next_time_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def note(
        file: str, *, overrides: list[str], names_only: bool | None, saved: bool, locked: bool
    ) -> None:
        assert (names_only, saved, locked) == (None, False, False)
        asked.append({k: v for text in overrides for k, v in json.loads(text).items()})

    monkeypatch.setattr("dicore.run.request.compile_config", note)
    for limits in (Limits(200, None, float("inf")), Limits(300, 7, 0.0)):
        begin(folder, resume=True, limits=limits)[0].abandon()
        assert saved_member(folder / "run.json", "limits")["max_env_step"] == limits.max_env_step
        compile_resumed(TrainRequest(resume=folder), RunFolder(folder))
        compile_resumed(TrainRequest(resume=folder, max_env_step=900), RunFolder(folder))
    paths = ("pipeline.max_env_step", "pipeline.max_train_iter", "env.stop_value")
    assert [tuple(each[path] for path in paths) for each in asked] == [
        (200, None, float("inf")),
        (900, None, float("inf")),
        (300, 7, 0.0),
        (900, 7, 0.0),
    ]
    (folder / "run.json").unlink()
    compile_resumed(TrainRequest(resume=folder, max_train_iter=5), RunFolder(folder))
    assert asked[-1] == {"pipeline.max_train_iter": 5}


@pytest.mark.parametrize("text", ["[1]", '{"resumed": 7}', "7", "{", "\\x00"])
def test_a_record_of_another_form_is_written_anew(text: str, folder: Path) -> None:
    (folder / "run.json").write_text(text)
    run, _ = begin(folder, resume=True)
    run.finish()
    record = json.loads((folder / "run.json").read_text())
    assert [each["checkpoint"] for each in record["resumed"]] == ["iteration_2"]


def test_a_log_that_is_a_link_is_neither_cut_nor_written(folder: Path, tmp_path: Path) -> None:
    """R-E04: a run that somebody sent must not lead to other files."""
    victim = tmp_path / "victim"
    victim.write_text("keep\n" * 1000)
    (folder / "log/metrics.jsonl").unlink()
    (folder / "log/metrics.jsonl").symlink_to(victim)
    with pytest.raises(UsageError, match="a symbolic link"):
        begin(folder, resume=True)[0].restore()
    assert victim.read_text() == "keep\n" * 1000


def test_a_config_that_is_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere.json").write_text("{}")
    (folder / "config.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(UsageError, match=r"config\.json: a symbolic link"):
        begin(folder, resume=True)[0].restore()


@pytest.mark.parametrize("name", ["video", "data", "policy", "log", "ckpt"])
def test_no_folder_of_a_run_leads_elsewhere(name: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    if (folder / name).is_dir():
        (folder / name).rename(tmp_path / "away")
    (folder / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError, match="a symbolic link"):
        begin(folder, resume=True)[0].restore()
    assert not [*(tmp_path / "elsewhere").iterdir()]
