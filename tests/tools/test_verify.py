"""`dicore verify`: equal runs are equal, and what differs is found and explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dicore.cli import main
from dicore.errors import UsageError
from dicore.run import read_metrics
from dicore.run.launch import launch
from dicore_tools.commands.verify import verify

SMALL = {
    "env": {"type": "cartpole", "collector_env_num": 2, "evaluator_env_num": 1,
            "n_evaluator_episode": 2},
    "policy": {"type": "dqn", "model": {"encoder_hidden_size_list": [8]},
               "learn": {"batch_size": 8}, "eval": {"evaluator": {"eval_freq": 60}},
               "collect": {"n_sample": 8, "random_collect_size": 16}},
}  # fmt: skip


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    launch(SMALL, exp_name=str(folder), max_env_step=400)
    return folder


def changed(file: Path, change: Any) -> None:
    """Rewrites a file of JSON lines, or one of JSON."""
    text = file.read_text()
    lines = [
        json.loads(each) for each in (text.splitlines() if file.suffix == ".jsonl" else [text])
    ]
    for line in lines:
        change(line)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_run_repeats_itself(run: Path, tmp_path: Path) -> None:
    found = verify(run, keep=tmp_path / "again")
    assert (found.equal, found.parameters, found.problem, found.differs) == (True, True, "", [])
    assert found.rows > 5
    assert (tmp_path / "again" / "run" / "run.json").is_file()


def test_a_part_is_compared_from_one_logged_step_to_the_next(run: Path) -> None:
    found = verify(run, until=150)
    assert found.equal
    assert found.parameters is None
    assert found.until is not None
    assert 150 <= found.until < 400
    assert 0 < found.rows < verify(run).rows


def test_a_part_in_which_nothing_was_logged_is_refused(run: Path) -> None:
    """Else no row would be equal, and no row different."""
    first = next(read_metrics(run / "log" / "metrics.jsonl"))["step"]
    with pytest.raises(UsageError, match=f"nothing was logged before env step {first}"):
        verify(run, until=1)


def test_the_first_row_that_differs_is_told(run: Path) -> None:
    def shift(row: dict[str, Any]) -> None:
        if row["step"] > 200 and "learner/total_loss" in row:
            row["learner/total_loss"] *= 1 + 1e-15

    changed(run / "log" / "metrics.jsonl", shift)
    found = verify(run)
    assert not found.equal
    assert "learner/total_loss was" in found.problem
    assert verify(run, until=150).equal  # before it


def test_other_parameters_and_what_trained_otherwise_are_told(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run / "ckpt" / "final").rename(tmp_path / "kept")
    other = tmp_path / "other"
    launch(SMALL, exp_name=str(other), max_env_step=400, seed=1)
    (other / "ckpt" / "final").rename(run / "ckpt" / "final")
    changed(run / "run.json", lambda facts: facts["versions"].update(numpy="1.0"))
    capsys.readouterr()
    assert main(["verify", "-q", str(run), "--json"]) == 1
    verdict = json.loads(capsys.readouterr().out)
    assert "checkpoint 'final': learner.policy" in verdict["problem"]
    assert (verdict["equal"], verdict["parameters"]) == (False, False)
    assert len(verdict["differs"]) == 1
    assert verdict["differs"][0].startswith("numpy 1.0, now ")


def test_what_cannot_be_compared_is_refused(run: Path) -> None:
    changed(run / "run.json", lambda facts: facts.update(status="running"))
    with pytest.raises(UsageError, match="has not ended"):
        verify(run)
    (run / "log" / "metrics.jsonl").unlink()
    with pytest.raises(UsageError, match="nothing to compare"):
        verify(run)


def test_of_a_resumed_run_with_a_raised_budget_the_part_before_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    launch(SMALL, exp_name=str(folder), max_env_step=200)
    launch(resume=str(folder), max_env_step=400)
    capsys.readouterr()
    assert main(["verify", "-q", str(folder)]) == 1
    out = capsys.readouterr().out
    assert "the run was resumed at env step 200: if its budget was raised there" in out
    assert "--until 200" in out
    assert "processor" not in out
    assert verify(folder, until=200).equal
