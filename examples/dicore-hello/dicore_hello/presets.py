"""A preset that solves the countdown."""

from __future__ import annotations

from typing import Any

COUNTDOWN_DQN: dict[str, Any] = {
    "env": {"type": "countdown", "stop_value": 0.9, "n_evaluator_episode": 5},
    "policy": {
        "type": "dqn",
        "learn": {"batch_size": 32},
        "collect": {"n_sample": 32},
        "other": {"eps": {"decay": 500}},
    },
    "pipeline": {"max_env_step": 5000},
}
"""Countdown, solved by DQN within seconds."""
