"""`dicore status`: the table of a parallel run, from its files alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dicore.cli import main
from dicore_dist.coordinator.status import read_wishes

FACTS: dict[str, Any] = {
    "format": 1,
    "ended": False,
    "learner": {"pid": 11, "state": "waits for samples", "train_iter": 40, "env_step": 640,
                "updates_per_s": 12.3, "waited": 0.25, "samples": 600},
    "collectors": [
        {"index": 0, "pid": 12, "state": "collects", "version": 38, "lag": 2, "env_step": 320,
         "env_steps_per_s": 99.6, "queue": 2, "restarts": 0, "seen": 0.1},
        {"index": 1, "pid": 0, "state": "is starting", "version": -1, "lag": 0, "env_step": 0,
         "env_steps_per_s": 0.0, "queue": 0, "restarts": 1, "seen": None},
    ],
    "evaluator": {"pid": 14, "state": "evaluates", "missing": 1},
}  # fmt: skip


def write(run: Path, facts: Any) -> Path:
    log = run / "log"
    log.mkdir(parents=True, exist_ok=True)
    text = facts if isinstance(facts, str) else json.dumps(facts)
    (log / "status.json").write_text(text)
    return log


def test_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write(tmp_path, FACTS)
    assert main(["status", str(tmp_path)]) == 0
    first, head, learner, *collectors, evaluator = capsys.readouterr().out.splitlines()
    assert first.startswith("running, as of 0 s ago: 640 env steps")
    assert head.split() == [
        *["role", "pid", "state", "version", "lag", "per", "second", "queue", "restarts"]
    ]
    assert learner.split("  ")[0] == "learner"
    assert "12 updates, waits 25%" in learner
    assert [each.split()[:2] for each in collectors] == [["collector", "0"], ["collector", "1"]]
    assert "100 env steps" in collectors[0]
    assert "1 missing" in evaluator
    os.utime(log / "status.json", (1, 1))
    main(["status", str(tmp_path)])
    assert capsys.readouterr().out.startswith("silent")


def test_json_and_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {**FACTS, "ended": True})
    assert main(["status", str(tmp_path), "--json", "--every", "1"]) == 0  # and does not wait
    assert json.loads(capsys.readouterr().out)["learner"]["train_iter"] == 40


def test_a_wish_for_collectors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write(tmp_path, FACTS)
    assert main(["status", str(tmp_path), "--collectors", "3"]) == 0
    assert read_wishes(log) == {"collector_num": 3}
    for text in ("[]", '{"collector_num": true}', '{"collector_num": 0}', "half"):
        (log / "wishes.json").write_text(text)
        assert read_wishes(log) == {}
    write(tmp_path, {**FACTS, "ended": True})
    assert main(["status", str(tmp_path), "--collectors", "3"]) == 2
    assert "has ended" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("facts", "error"),
    [(None, "has no status"), ("{", "cannot be read"), ({"format": 2}, "another version")],
)
def test_a_status_that_cannot_be_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], facts: Any, error: str
) -> None:
    if facts is not None:
        write(tmp_path, facts)
    assert main(["status", str(tmp_path)]) == 2
    assert error in capsys.readouterr().err


@pytest.mark.parametrize("serial", [True, False], ids=["serial", "dist"])
def test_a_run_whose_process_is_gone(
    serial: bool, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    record = json.loads((run / "run.json").read_text())
    if not serial:
        write(run, FACTS)

    def first_line(pid: int, written: float | None = None) -> list[str]:
        (run / "run.json").write_text(json.dumps({**record, "status": "running", "pid": pid}))
        if written is not None:
            os.utime(run / "run.json", (written, written))
        assert main(["status", str(run)]) == 0
        return capsys.readouterr().out.splitlines()

    assert first_line(os.getpid())[0].startswith("running")
    for pid, written in ((gone.pid, None), (os.getpid(), 1e9)):  # another process of this number
        lines = first_line(pid, written)
        assert lines[0].startswith("ended without a word (killed?)")
        assert lines[-1] == f"go on from its last checkpoint: dicore train --resume {run}"
    assert main(["status", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["killed"] is True  # nothing beside it
    assert main(["status", str(run), "--every", "1"]) == 0  # and does not wait
    assert main(["status", str(run), "--collectors", "2"]) == 2


def test_a_run_in_one_process(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", str(run)]) == 0
    assert capsys.readouterr().out == "used up the budget: 16 env steps, 128 updates\n"
    assert main(["status", str(run), "--collectors", "2"]) == 2
    assert "a run in one process" in capsys.readouterr().err


def test_a_run_that_failed_says_why(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = {"status": "failed", "error": "EnvStepError: env 0: gone\nfar away"}
    (tmp_path / "run.json").write_text(json.dumps(record))
    (tmp_path / "config.json").write_bytes((run / "config.json").read_bytes())
    assert main(["status", str(tmp_path)]) == 0
    told = "failed: 0 env steps, 0 updates\nwhy: EnvStepError: env 0: gone\n"
    assert capsys.readouterr().out == told
