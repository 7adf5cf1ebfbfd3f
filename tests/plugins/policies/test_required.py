"""Options that have no effect, because another one is off, are refused."""

from __future__ import annotations

from typing import Any

import pytest

from dicore.config import compile_config
from dicore.errors import ConfigError

NONE = "has no effect without"
FIXED = {"auto_alpha": False}


@pytest.mark.parametrize("kind", ["td3", "ddpg"])
@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"model": {"stochastic": True}}, "model.stochastic: the actor is deterministic"),
        (
            {"learn": {"target_noise": 0.0, "target_noise_clip": 0.3}},
            f"target_noise_clip: {NONE} target_noise",
        ),
        ({"collect": {"noise_decay": 5}}, f"noise_decay: {NONE} noise_end"),
    ],
)
def test_td3_has_no_noise_that_nothing_asks_for(kind: str, options: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        compile_config({"env": "pendulum", "policy": {"type": kind, **options}})
    compile_config({"env": "pendulum", "policy": {"type": kind, "learn": {"target_noise": 0.0}}})
    noise = {"noise_end": 0.0, "noise_decay": 5}
    compile_config({"env": "pendulum", "policy": {"type": kind, "collect": noise}})


@pytest.mark.parametrize("kind", ["sac", "discrete_sac", "redq"])
@pytest.mark.parametrize(
    ("learn", "problem"),
    [
        ({**FIXED, "target_entropy": -3.0}, f"target_entropy: {NONE} auto_alpha"),
        ({**FIXED, "target_entropy_end": -3.0}, f"target_entropy_end: {NONE} auto_alpha"),
        ({"target_entropy_decay": 5}, f"target_entropy_decay: {NONE} target_entropy_end"),
    ],
)
def test_a_fixed_temperature_keeps_no_entropy(kind: str, learn: Any, problem: str) -> None:
    env = "cartpole" if kind == "discrete_sac" else "pendulum"
    with pytest.raises(ConfigError, match=problem):
        compile_config({"env": env, "policy": {"type": kind, "learn": learn}})
    compile_config({"env": env, "policy": {"type": kind, "learn": FIXED}})


def test_trpo_without_updates_of_its_values_has_no_options_of_them() -> None:
    for name, value in (("batch_size", 7), ("learning_rate", 0.5), ("max_grad_norm", 0.1)):
        learn = {"value_epoch": 0, name: value}
        with pytest.raises(ConfigError, match=f"{name}: {NONE} value_epoch"):
            compile_config({"env": "cartpole", "policy": {"type": "trpo", "learn": learn}})
    compile_config({"env": "cartpole", "policy": {"type": "trpo", "learn": {"value_epoch": 0}}})


def test_no_batch_has_more_new_sequences_than_sequences() -> None:
    buffer = {
        "type": "sequence", "newest": 65, "burn_in": 10, "unroll_len": 25, "stride": 20,
        "state_keys": ("prev_state",),
    }  # fmt: skip
    policy = {"type": "r2d2", "learn": {"batch_size": 64}, "other": {"replay_buffer": buffer}}
    with pytest.raises(ConfigError, match=r"newest: must be <= learn.batch_size = 64"):
        compile_config({"env": "cartpole", "policy": policy})
    buffer["newest"] = 64
    compile_config({"env": "cartpole", "policy": policy})
