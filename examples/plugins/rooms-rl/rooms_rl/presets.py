"""A preset that solves the two rooms."""

from __future__ import annotations

from typing import Any

TWO_ROOMS_DQN: dict[str, Any] = {
    "env": {"type": "two_rooms", "stop_value": 0.9, "n_evaluator_episode": 10},
    "policy": {
        "type": "dqn",
        "discount_factor": 0.95,
        "model": {"encoder_hidden_size_list": [64, 64]},
        "learn": {"batch_size": 32, "learning_rate": 0.002, "target_update_freq": 50},
        "collect": {"n_sample": 32},
        "eval": {"evaluator": {"eval_freq": 100}},
        "other": {"eps": {"decay": 1500}},
    },
    "pipeline": {"max_env_step": 6000},
}
"""Two rooms, solved by DQN within seconds."""
