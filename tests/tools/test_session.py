"""`dicore session`: a run that is made first and trained later, and a run as a module."""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from dicore.cli import main
from dicore.errors import UsageError
from dicore_tools.sessions import Session, make_module

POLE = ["-e", "cartpole", "-p", "dqn", "-s", "3", "--max-env-step", "600"]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_run_is_made_then_trained_then_imported(capfd: pytest.CaptureFixture[str]) -> None:
    twice = "policy.eval.evaluator.eval_at_start=true"  # and at the end
    assert main(["session", "new", *POLE, twice, "--exp-name", "sessions/pole"]) == 0
    assert "dicore train --resume sessions/pole" in capfd.readouterr().out
    assert sorted(path.name for path in Path("sessions/pole").iterdir()) == [
        *("__init__.py", "config.json", "formatted_total_config.py", "total_config.py")
    ]
    session = importlib.import_module("sessions.pole")
    try:
        assert session.result == {}
        assert session.checkpoints == []
        assert session.config.seed == 3
        assert main(["train", "--resume", "sessions/pole", "-q"]) == 0
        assert session.result["env_step"] >= 600
        steps, returns = session.metrics("evaluator/return_mean")
        assert len(steps) == len(returns) == 2
        assert session.agent.act([0.0, 0.1, 0.0, -0.1]) in (0, 1)
        assert session.load("final").evaluate(1, seed=5).returns
        assert {"agent", "load", "metrics", "folder"} <= set(dir(session))
        with pytest.raises(AttributeError, match="no attribute 'agnet'"):
            session.agnet  # noqa: B018
    finally:
        sys.modules.pop("sessions.pole")
        sys.modules.pop("sessions")


def test_a_made_run_trains_as_one_that_was_never_made_before() -> None:
    overrides = ["pipeline.logger=[]"]
    assert main(["session", "new", *POLE, "--exp-name", "a", *overrides, "-q"]) == 0
    assert main(["train", "--resume", "a", "-q"]) == 0
    assert main(["train", *POLE, "--exp-name", "b", *overrides, "-q"]) == 0
    hashes = [Session(run).load("final").folder for run in ("a", "b")]
    tensors = [run / "ckpt/final/tensors.safetensors" for run in hashes if run is not None]
    assert tensors[0].read_bytes() == tensors[1].read_bytes()


def test_mistakes_make_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["session", "new", *POLE, "--exp-name", "x", "policy.nstep=0"]) == 2
    assert "policy.nstep" in capfd.readouterr().err
    assert not Path("x").exists()
    with pytest.raises(UsageError, match="no such folder"):
        Session("x")
    Path("other").mkdir()
    Path("other/config.json").write_text("{}")
    Path("other/__init__.py").write_text("mine = 1\n")
    with pytest.raises(UsageError, match="is not of dicore"):
        make_module("other")
    with pytest.raises(UsageError, match="no checkpoint 'best'"):
        Session("other").load("best")
    with pytest.raises(UsageError, match=r"metrics\.jsonl"):
        Session("other").metrics("evaluator/return_mean")


@pytest.mark.parametrize(
    "make",
    [os.mkfifo, os.mkdir, lambda file: file.write_bytes(b"\xff")],
    ids=["pipe", "folder", "bytes"],
)
def test_a_module_that_is_no_text_of_dicore_is_left_alone(make: Any) -> None:
    Path("other").mkdir()
    Path("other/config.json").write_text("{}")
    make(Path("other/__init__.py"))
    with pytest.raises(UsageError, match="__init__"):
        make_module("other")
