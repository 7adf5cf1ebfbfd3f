"""`monitor`: exact statistics of what was reported since the window before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dicore.errors import UsageError
from dicore.run.launch import launch
from dicore.run.log import read_metrics
from dicore_plugins.hooks import monitor
from dicore_plugins.hooks.windows import _taken
from dicore_plugins.policies import DQNPolicy


def test_statistics_are_exact() -> None:
    rng = np.random.default_rng(0)
    values = 1e6 + rng.normal(size=1000)
    _taken()
    monitor("x", float(values[0]))
    monitor("x", [])
    monitor("empty", [])
    monitor("x", torch.tensor(values[1:10], requires_grad=True))
    monitor("/x", values[10:].reshape(99, 10))
    (window,) = _taken().values()
    found = window.statistics()
    assert found["num"] == 1000
    assert found["mean"] == pytest.approx(values.mean(), rel=1e-12)
    assert found["std"] == pytest.approx(values.std(), rel=1e-6)
    assert (found["min"], found["max"]) == (values.min(), values.max())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("values", "mean", "low", "high"),
    [
        ([1.0, np.nan], np.nan, np.nan, np.nan),
        ([1.0, np.inf], np.inf, 1.0, np.inf),
        ([1e308, -1e308], 0.0, -1e308, 1e308),
        (torch.ones(3, dtype=torch.bfloat16), 1.0, 1.0, 1.0),
        (True, 1.0, 1.0, 1.0),
    ],
)
def test_odd_numbers_have_the_statistics_of_numpy(
    values: object, mean: float, low: float, high: float
) -> None:
    monitor("odd", values)
    monitor("odd", values)
    found = _taken()["odd"].statistics()
    assert [found[key] for key in ("mean", "min", "max")] == pytest.approx(
        [mean, low, high], nan_ok=True
    )


@pytest.mark.parametrize("values", ["x", None, 1j, {"a": 1}, [[1], [1, 2]]])
def test_what_is_no_number_is_refused_by_name(values: object) -> None:
    with pytest.raises(UsageError, match=r"monitor\('loss'\): .* is not a number"):
        monitor("loss", values)
    assert not _taken()


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
