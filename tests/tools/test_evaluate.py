"""Evaluation of a run: what it reads, what it refuses, and that it writes nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from dicore.errors import CheckpointError, ConfigError
from dicore.run.checkpoint_store import CheckpointStore
from dicore.run.launch import launch
from dicore_tools.evaluation.evaluate import evaluate
from tests.core.run.launch_parts import config
from tests.tools.conftest import mtimes

pytestmark = pytest.mark.usefixtures("toys")


def test_evaluation_reads_the_best_and_writes_nothing() -> None:
    launch(config(exp_name="x"))
    before = mtimes(Path("x"))
    found = evaluate("x", n_episode=3, seed=100)
    assert found.returns == [6.0] * 3, "three environments, not five, for three episodes"
    assert (found.mean_return, found.std) == (6.0, 0.0)
    assert (found.checkpoint, found.seed) == ("best", 100)
    assert evaluate("x").seed == 0
    assert mtimes(Path("x")) == before
    found = evaluate("x", load_path="x/ckpt/best.pth.tar")
    assert found.returns[0] == 5.0, "as many environments as in training: two, not five"


def test_evaluation_says_what_it_cannot_use() -> None:
    run = launch(config(exp_name="x")).run
    with pytest.raises(CheckpointError, match="existing: best"):
        evaluate("x", load_path="iteration_3")
    run.store.save("odd", {"something": 1})
    with pytest.raises(CheckpointError, match="contains no policy"):
        evaluate("x", load_path="odd")
    for name in ("best", "odd"):
        (Path("x/ckpt") / name / "manifest.json").write_text("{}")
    with pytest.raises(CheckpointError, match="no valid checkpoint"):
        evaluate("x")


def test_a_checkpoint_that_the_run_drops_meanwhile_is_followed_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R-D10: between the choice and the reading the whole policy is built."""
    run = launch(config(exp_name="x")).run
    whole = run.store.load("best")
    shutil.rmtree("x/ckpt")
    for number in (1, 2):
        run.store.save(f"iteration_{number}", whole, train_iter=number)
    load = CheckpointStore.load

    def load_late(store: CheckpointStore, name: str) -> Any:
        if Path("x/ckpt/iteration_2").exists():
            run.store.save("iteration_3", whole, train_iter=3)
            shutil.rmtree("x/ckpt/iteration_2")
        return load(store, name)

    monkeypatch.setattr(CheckpointStore, "load", load_late)
    assert evaluate("x").checkpoint == "iteration_3"
    with pytest.raises(CheckpointError, match="existing: iteration_1, iteration_3"):
        evaluate("x", load_path="iteration_2")


def test_evaluation_runs_code_by_name_only_unless_trusted(tmp_path: Path) -> None:
    """R-E03: a run folder may come from anywhere."""
    mark = tmp_path / "mark"
    Path("part.py").write_text(
        f"from pathlib import Path\nPath({str(mark)!r}).touch()\n"
        "from dicore.config import ComponentConfig, frozen\n"
        "@frozen(kw_only=True)\nclass Part(ComponentConfig):\n    'A part.'\n"
    )
    launch(config(exp_name="x"), overrides=["policy.collect.collector=./part.py:Part"])
    mark.unlink()
    with pytest.raises(ConfigError, match="--trust"):
        evaluate("x")
    assert not mark.exists()
    assert evaluate("x", trust=True).checkpoint == "best"
