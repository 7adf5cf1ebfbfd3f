"""A training that is interrupted twice, wherever that is, goes on as if nothing had happened."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from dicore import register
from dicore.cli import main
from dicore.run import read_metrics, read_state

MAIN = os.getpid()
LEFT = {"steps": 0}
"""Env steps until the next interruption."""


@register("env_wrapper", "alarm")
class Alarm(gymnasium.Wrapper):
    """Interrupts the training at a step."""

    def step(self, action: Any) -> Any:
        LEFT["steps"] -= 1
        if LEFT["steps"] == 0:
            os.kill(MAIN, signal.SIGINT)
        return super().step(action)


FAST = ["env.env_wrapper=alarm", "env.stop_value=inf", "env.n_evaluator_episode=2"]
FAST += ["env.evaluator_env_num=2", "pipeline.logger=[]"]
PPO = ["-e", "cartpole", "-p", "school_ppo", "policy.learn.update_per_collect=1"]
PPO += ["--max-env-step", "1536", "policy.collect.n_sample=512"]
PPO += ["policy.eval.evaluator.eval_freq=250"]
SAC = [
    "-e",
    "pendulum",
    "-p",
    "school_sac",
    "policy.model.hidden=[16]",
    "policy.learn.batch_size=16",
]
SAC += ["--max-env-step", "400", "env.collector_env_num=2", "policy.eval.evaluator.eval_freq=100"]
SAC += ["policy.collect.n_sample=2"]
R2D2 = ["-e", "recall", "-p", "school_r2d2", "policy.model.hidden=16", "--max-env-step", "2500"]
R2D2 += ["policy.learn.batch_size=8", "policy.collect.random_collect_size=64"]
R2D2 += ["policy.learn.burn_in=3", "policy.collect.unroll_len=4"]
REINFORCE = ["-e", "cartpole", "-p", "reinforce", "--max-train-iter", "8"]
REINFORCE += ["policy.eval.evaluator.eval_freq=3"]
CLONING = ["-e", "cartpole", "-p", "cloning", "--max-train-iter", "60"]
CLONING += ["policy.eval.evaluator.eval_freq=20", "pipeline.dataset.type=recorded"]
CLONING += ["pipeline.dataset.path=samples.npz"]
CASES = {
    "ppo within a collect of 512": (PPO, (175, 625)),
    "ppo, environments in processes": (
        [*PPO, "env.manager=forked", "env.collector_env_num=2"],
        (175, 350),
    ),
    "continuous ppo": (
        [*PPO, "-e", "pendulum"],
        (100, 600),
    ),
    "sac within a warm-up": (SAC, (50, 100)),
    "sac with priorities": (
        [*SAC, "policy.priority=true", "policy.other.replay_buffer=prioritized"],
        (200, 250),
    ),
    "r2d2 within a warm-up": (R2D2, (100, 1000)),
    "r2d2 within an episode": (R2D2, (1003, 1101)),
    "reinforce": (REINFORCE, (100, 500)),
    "reinforce by the sample collector": (
        [*REINFORCE, "policy.collect.collector=sample"],
        (100, 500),
    ),
    "cloning": (CLONING, (20, 40)),
}


def train(folder: Path, words: list[str], steps: int, monkeypatch: pytest.MonkeyPatch) -> int:
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)
    if not Path("samples.npz").exists():
        rng = np.random.default_rng(0)
        obs = rng.normal(size=(500, 4)).astype(np.float32)
        np.savez("samples.npz", obs=obs, action=(obs[:, 2] > 0).astype(np.int64))
    LEFT["steps"] = steps
    again = Path("run/config.json").exists()
    given = ["--resume", "run"] if again else [*words, *FAST, "--exp-name", "run", "-s", "1"]
    return main(["train", "-q", *given])


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    if isinstance(one, dict):
        assert one.keys() == other.keys(), path
        return [each for key in one for each in differences(one[key], other[key], f"{path}/{key}")]
    if isinstance(one, list | tuple):
        if len(one) != len(other):
            return [path]
        pairs = enumerate(zip(one, other, strict=True))
        return [each for i, pair in pairs for each in differences(*pair, f"{path}/{i}")]
    same = np.array_equal(np.asarray(one), np.asarray(other)) or repr(one) == repr(other) == "nan"
    return [] if same or path.startswith(("/run/wall_s", "/run/log")) else [path]


def numbers(run: Path) -> list[dict[str, Any]]:
    return [
        {tag: value for tag, value in line.items() if "time" not in tag and "per_sec" not in tag}
        for line in read_metrics(run / "log" / "metrics.jsonl")
    ]


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_training_is_bit_equal(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, stops = CASES[case]
    assert train(tmp_path / "whole", words, 0, monkeypatch) == 0
    for steps in stops:
        assert train(tmp_path / "parts", words, steps, monkeypatch) == 130
    assert train(tmp_path / "parts", words, 0, monkeypatch) == 0
    runs = [tmp_path / name / "run" for name in ("whole", "parts")]
    assert differences(*(read_state(each / "ckpt" / "final") for each in runs)) == []
    assert numbers(runs[0]) == numbers(runs[1])
