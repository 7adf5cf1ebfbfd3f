"""`KeepTime`: blocks by name, nothing where nobody asks."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from dicore.run.launch import launch
from dicore_plugins.middleware import KeepTime, keeping_time
from dicore_plugins.policies import DQNPolicy


def test_blocks_are_nested_and_counted() -> None:
    with keeping_time(level=2) as timer:
        for _ in range(3):
            with KeepTime("agent"), KeepTime("update/loss", level=2):
                time.sleep(0.01)
            with KeepTime("detail", level=3):
                pass
    rows = {"/".join(row.path): row for row in timer.rows()}
    assert list(rows) == ["agent", "agent/update", "agent/update/loss"]
    assert [row.calls for row in rows.values()] == [3, 3, 3]
    assert 0.03 <= rows["agent/update/loss"].seconds <= rows["agent"].seconds < 3
    lines = [json.loads(line) for line in timer.json_lines().splitlines()]
    assert [(line["path"], line["level"], line["calls"]) for line in lines] == [
        ("agent", 1, 3), ("agent/update", 2, 3), ("agent/update/loss", 3, 3)
    ]  # fmt: skip
    assert lines[-1]["mean_s"] == pytest.approx(rows["agent/update/loss"].seconds / 3, rel=1e-3)


def test_an_error_ends_the_block() -> None:
    with keeping_time() as timer:
        with pytest.raises(ValueError, match="no"), KeepTime("a/b"):
            raise ValueError("no")
        with KeepTime("c"):
            pass
    assert ["/".join(row.path) for row in timer.rows()] == ["a", "a/b", "c"]
    with KeepTime("outside"):
        pass
    assert len(timer.rows()) == 3


def test_the_profile_of_a_run_has_the_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = DQNPolicy._forward_learn

    def timed(self: DQNPolicy, data: object) -> object:
        with KeepTime("my block"):
            return plain(self, data)

    monkeypatch.setattr(DQNPolicy, "_forward_learn", timed)
    folder = tmp_path / "x"
    launch(
        env="cartpole", policy="dqn", seed=0, exp_name=str(folder), max_env_step=600, profile=True,
        overrides=["pipeline.logger=[]", "pipeline.final_eval=false",
                   "policy.learn.update_per_collect=8"],
    )  # fmt: skip
    lines = [json.loads(line) for line in (folder / "log/profile.jsonl").read_text().splitlines()]
    [row] = [line for line in lines if line["path"].endswith("/my block")]
    assert row["level"] >= 2
    assert row["calls"] > 0
