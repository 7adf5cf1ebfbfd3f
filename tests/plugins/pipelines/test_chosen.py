"""Options that are `auto`: what is measured, taken, recorded and taken again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, UsageError
from dicore.run.launch import launch
from dicore_plugins.pipelines import chosen
from dicore_plugins.policies import create_policy
from dicore_tools.commands.verify import verify

UPDATES = {
    "dqn": ["policy.learn.update_per_collect=4", "policy.collect.random_collect_size=0"],
    "ppo": ["policy.learn.epoch_per_collect=1"],
}
AUTO = "policy.learn.autocast=auto"
FEW = ("env.stop_value=inf", "env.n_evaluator_episode=1", "env.evaluator_env_num=1",
       "policy.collect.n_sample=40", "policy.learn.batch_size=32", "pipeline.logger=[]",
       "pipeline.final_eval=false")  # fmt: skip


def train(folder: Path, *more: str, policy: str = "dqn", limit: int = 240) -> Any:
    return launch(
        env="cartpole", policy=policy, seed=0, exp_name=str(folder), max_env_step=limit,
        overrides=[*FEW, *UPDATES.get(policy, []), *more],
    )  # fmt: skip


def parameters(outcome: Any) -> Mapping[str, torch.Tensor]:
    found: Mapping[str, torch.Tensor] = outcome.policy.get_attribute("model").state_dict()
    return found


def equal(one: Any, two: Any) -> bool:
    return all(torch.equal(value, parameters(two)[key]) for key, value in parameters(one).items())


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return found.get("chosen", {}).get("policy.learn.autocast", {})


@pytest.fixture
def gains(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The ratios that are measured, on a device with bfloat16; they may be changed."""
    ratios = [1.1, 1.4, 1.3]
    monkeypatch.setattr(chosen, "has_bfloat16", lambda cuda: True)
    monkeypatch.setattr(chosen, "_ratios", lambda *_: ratios)
    return ratios


def test_a_device_without_bfloat16_trains_in_float32(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chosen, "has_bfloat16", lambda cuda: False)
    assert equal(train(tmp_path / "auto", AUTO), train(tmp_path / "plain"))
    assert record(tmp_path / "auto") == {
        "took": None, "why": "the device has no bfloat16 instructions",
    }  # fmt: skip
    assert not record(tmp_path / "plain")


def test_bfloat16_is_taken_where_the_median_gain_is_enough(
    gains: list[float], tmp_path: Path
) -> None:
    auto = train(tmp_path / "auto", AUTO)
    assert record(tmp_path / "auto")["took"] == "bfloat16"
    assert record(tmp_path / "auto")["ratio"] == 1.3
    log = (tmp_path / "auto" / "log" / "run" / "run.txt").read_text()
    assert "autocast=auto took bfloat16: updates in float32 take 1.30 times as long" in log
    assert equal(auto, train(tmp_path / "bfloat16", "policy.learn.autocast=bfloat16"))
    gains[:] = [1.1, 1.19, 1.4]
    train(tmp_path / "less", AUTO)
    assert record(tmp_path / "less")["took"] is None
    assert record(tmp_path / "less")["ratio"] == 1.19


@pytest.mark.parametrize("policy", ["dqn", "ppo"])
def test_measuring_leaves_the_training_as_it_is(
    policy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chosen, "has_bfloat16", lambda cuda: True)
    monkeypatch.setattr(chosen, "_GAIN", float("inf"))
    monkeypatch.setattr(chosen, "_SECONDS", 0.0)
    auto = train(tmp_path / "auto", AUTO, policy=policy)
    assert record(tmp_path / "auto")["ratio"] > 0
    assert re.search(r"median of 3 pairs", record(tmp_path / "auto")["why"])
    assert equal(auto, train(tmp_path / "plain", policy=policy))


def test_a_resumed_run_takes_what_was_recorded(gains: list[float], tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", AUTO, policy="ppo")
    train(tmp_path / "half", AUTO, policy="ppo", limit=120)
    gains[:] = [0.5]
    rest = launch(resume=str(tmp_path / "half"), max_env_step=240)
    assert record(tmp_path / "half")["ratio"] == 1.3
    assert equal(whole, rest)
    again = train(tmp_path / "half", AUTO, policy="ppo")  # a new folder: it measures
    assert record(again.run.folder.path)["ratio"] == 0.5


def test_a_record_that_names_another_dtype_is_not_believed(
    gains: list[float], tmp_path: Path
) -> None:
    train(tmp_path / "run", AUTO, limit=120)
    file = tmp_path / "run" / "run.json"
    facts = json.loads(file.read_text())
    facts["chosen"]["policy.learn.autocast"]["took"] = "manual_seed"
    file.write_text(json.dumps(facts))
    launch(resume=str(tmp_path / "run"), max_env_step=160)
    assert record(tmp_path / "run")["took"] == "bfloat16"


def test_a_repeated_training_takes_what_was_recorded(gains: list[float], tmp_path: Path) -> None:
    train(tmp_path / "run", AUTO)
    gains[:] = [0.5]
    verdict = verify(tmp_path / "run")
    assert verdict.equal
    assert "total_config.py" not in verdict.compared  # it says `auto`, the second `bfloat16`


def test_what_no_pipeline_has_measured_acts_but_does_not_learn() -> None:
    policy = create_policy(
        {"type": "dqn", "learn": {"autocast": "auto"}},
        observation_space=spaces.Box(-1, 1, (4,), np.float32),
        action_space=spaces.Discrete(2),
    )
    obs = np.zeros((3, 4), np.float32)
    policy.eval_mode.forward(EnvBatch(np.arange(3), obs))
    columns = {"obs": obs, "next_obs": obs, "action": np.zeros(3, np.int64),
               "reward": np.zeros(3, np.float32), "done": np.zeros(3, bool)}  # fmt: skip
    with pytest.raises(UsageError, match=r"autocast=auto: nothing has measured"):
        policy.learn_mode.forward(Batch(columns, 3))


def test_policies_that_are_not_trained_so_refuse_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"policy\.learn\.autocast: r2d2 is not trained so"):
        train(tmp_path / "run", AUTO, policy="r2d2")
