"""`monitor`: exact statistics of what was reported since the window before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dicore.run.launch import launch
from dicore.run.log import read_metrics
from dicore_plugins.hooks import monitor
from dicore_plugins.hooks.windows import Window
from dicore_plugins.policies import DQNPolicy


def test_statistics_are_exact() -> None:
    rng = np.random.default_rng(0)
    values = 1e6 + rng.normal(size=1000)
    window = Window()
    window.add(float(values[0]))
    window.add([])
    window.add(torch.tensor(values[1:10], requires_grad=True))
    window.add(values[10:].reshape(99, 10))
    found = window.statistics()
    assert found["num"] == 1000
    assert found["mean"] == pytest.approx(values.mean(), rel=1e-12)
    assert found["std"] == pytest.approx(values.std(), rel=1e-6)
    assert (found["min"], found["max"]) == (values.min(), values.max())


def test_a_run_logs_what_any_code_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = DQNPolicy._forward_learn

    def reporting(self: DQNPolicy, data: object) -> object:
        monitor("/mine/number", 3.0)
        return plain(self, data)

    monkeypatch.setattr(DQNPolicy, "_forward_learn", reporting)
    monitor("of an earlier training", 1.0)
    folder = tmp_path / "x"
    hook = {"monitor_after_iter": 10}
    launch(
        {"policy": {"learn": {"learner": {"hook": hook}}}},
        env="cartpole", policy="dqn", seed=0, exp_name=str(folder), max_env_step=600,
        overrides=["pipeline.logger=[]", "pipeline.final_eval=false"],
    )  # fmt: skip
    lines = [line for line in read_metrics(folder / "log/metrics.jsonl")
             if any(tag.startswith("monitor/") for tag in line)]  # fmt: skip
    assert len(lines) >= 2
    assert {tag for line in lines for tag in line if tag.startswith("monitor/")} == {
        f"monitor/mine/number/{key}" for key in ("num", "mean", "std", "min", "max")
    }
    assert lines[1]["monitor/mine/number/num"] >= 10
    assert lines[1]["monitor/mine/number/mean"] == 3.0
