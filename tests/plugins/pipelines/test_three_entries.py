"""The three ways to train are made of the same parts: one seed, the same numbers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from dicore_contrib_envs.presets import CARTPOLE_DQN
from dicore_plugins.pipelines import serial_pipeline

EXAMPLES = Path(__file__).parents[3] / "examples"
BUDGET = 800
FEW = "policy.learn.update_per_collect=8"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def load(name: str) -> Any:
        sys.modules.pop(name, None)
        return __import__(name)

    return load


def parameters(policy: Any) -> torch.Tensor:
    return torch.cat(
        [each.detach().reshape(-1) for each in policy.get_attribute("model").parameters()]
    )


@pytest.mark.parametrize("seed", [3])
def test_same_seed_same_parameters(example: Any, seed: int, tmp_path: Path) -> None:
    """With stop_value never reached, so that all three spend the whole budget."""
    unreachable = "env.stop_value=inf"
    by_entry = serial_pipeline(
        CARTPOLE_DQN,
        seed=seed,
        max_env_step=BUDGET,
        exp_name=str(tmp_path / "entry"),
        overrides=[unreachable, FEW, "pipeline.logger=[]"],
    )
    options = {"seed": seed, "max_env_step": BUDGET, "overrides": [unreachable, FEW]}
    by_main = example("custom_main").main(exp_name=str(tmp_path / "main"), **options)
    by_task = example("task_form").main(exp_name=str(tmp_path / "task"), **options)
    assert torch.equal(parameters(by_entry), parameters(by_main))
    assert torch.equal(parameters(by_entry), parameters(by_task))
    assert (tmp_path / "task" / "ckpt" / "final").is_dir()
    assert (tmp_path / "main" / "ckpt" / "best").is_dir()


def test_another_seed_gives_other_numbers(tmp_path: Path) -> None:
    one, two = (
        serial_pipeline(
            [CARTPOLE_DQN, {}],
            seed=seed,
            max_env_step=800,
            exp_name=str(tmp_path / str(seed)),
            overrides=["env.stop_value=inf", FEW, "pipeline.logger=[]"],
        )
        for seed in (0, 1)
    )
    assert not torch.equal(parameters(one), parameters(two))


def test_priority_alone_chooses_a_prioritized_buffer_and_weights_change_the_run(
    tmp_path: Path,
) -> None:
    made = {
        weighted: serial_pipeline(
            CARTPOLE_DQN,
            seed=0,
            max_env_step=800,
            exp_name=str(tmp_path / str(weighted)),
            overrides=[
                "env.stop_value=inf",
                FEW,
                "pipeline.logger=[]",
                "policy.priority=true",
                f"policy.priority_IS_weight={weighted}",
            ],
        )
        for weighted in (False, True)
    }
    config = (tmp_path / "True" / "config.json").read_text()
    assert '"type": "advanced"' in config
    assert not torch.equal(parameters(made[False]), parameters(made[True]))
