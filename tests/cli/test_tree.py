"""What a training leaves behind (K21), and its result (K22)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_plugins")
pytest.importorskip("dicore_contrib_envs")

from dicore.cli import main
from dicore.run.log import read_metrics

WORDS = [
    "train", "-q", "-e", "cartpole", "-p", "dqn", "-s", "0", "--max-env-step", "800",
    "policy.eval.evaluator.n_episode=4", "env.evaluator_env_num=4", "env.stop_value=inf",
    "policy.eval.evaluator.eval_freq=100",
    "policy.other.replay_buffer.periodic_thruput_seconds=0.01",
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work") / "x"
    assert main([*WORDS, "--exp-name", str(folder)]) == 0
    return folder


def test_the_folder_has_a_place_for_everything(run: Path) -> None:
    """K21: config files, result, checkpoints, and what each part had to say."""
    found = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    expected = {
        "config.json", "total_config.py", "formatted_total_config.py", "run.json",
        "ckpt/best/manifest.json", "ckpt/best/tensors.safetensors",
        "ckpt/final/manifest.json", "ckpt/final/tensors.safetensors",
        "log/metrics.jsonl",
        *(f"log/{part}/{part}.txt"
          for part in ("serial", "learner", "collector", "evaluator", "buffer")),
    }  # fmt: skip
    assert expected <= found
    others = {re.sub(r"\d+", "N", name) for name in found - expected}
    assert others <= {
        "ckpt/iteration_N/manifest.json", "ckpt/iteration_N/tensors.safetensors",
        "code.diff",  # where the checkout around has changes
        *(name for name in others if name.startswith("log/events.out.tfevents.")),
    }, others  # fmt: skip


def test_the_texts_say_what_the_numbers_say(run: Path) -> None:
    def text(part: str) -> str:
        return (run / f"log/{part}/{part}.txt").read_text()

    lines = list(read_metrics(run / "log/metrics.jsonl"))
    tag = "evaluator/return_mean"
    told = re.findall(r"update (\d+), env step (\d+): mean return ([\d.]+) ", text("evaluator"))
    logged = [(line["train_iter"], line["step"], line[tag]) for line in lines if tag in line]
    assert len(logged) >= 4
    assert [(int(i), int(s), pytest.approx(float(v), rel=1e-5)) for i, s, v in told] == logged
    tag = "collector/reward_mean"
    told = re.findall(r"env step (\d+): \d+ episodes, mean return ([\d.]+) ", text("collector"))
    logged = [(line["step"], line[tag]) for line in lines if tag in line]
    assert logged
    assert [(int(s), pytest.approx(float(v), rel=1e-5)) for s, v in told] == logged
    assert "samples/s drawn" in text("buffer")
    assert "total_loss" in text("learner")
    first, last = text("serial").splitlines()
    assert "started at 0 env steps, 0 updates" in first
    assert "ended after 800 env steps" in last


def test_the_result_is_json_that_anybody_reads(run: Path) -> None:
    """K22."""

    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is no JSON")

    record = json.loads((run / "run.json").read_text(), parse_constant=refuse)
    result = record["result"]
    assert {name: type(value) for name, value in result.items()} == {
        "stop": bool, "train_iter": int, "env_step": int, "best_return": float, "wall_s": float,
        "cpu_s": float,
    }  # fmt: skip
    lines = list(read_metrics(run / "log/metrics.jsonl"))
    returns = [line["evaluator/return_mean"] for line in lines if "evaluator/return_mean" in line]
    assert result["best_return"] == max(returns)
    assert result["env_step"] == 800
    assert result["train_iter"] == max(line["train_iter"] for line in lines)
    assert record["status"] == "done"
    assert record["seed"] == 0
