"""A preset that solves CartPole."""

from __future__ import annotations

from typing import Any

CARTPOLE_MELLOW_DQN: dict[str, Any] = {
    "env": {"type": "cartpole", "stop_value": 475.0, "n_evaluator_episode": 10},
    "policy": {
        "type": "mellow_dqn",
        "discount_factor": 0.99,
        "model": {"encoder_hidden_size_list": [128, 128]},
        "learn": {"batch_size": 64, "learning_rate": 0.001, "omega": 10.0},
        "collect": {"n_sample": 8},
        "other": {"eps": {"decay": 5000}},
    },
    "pipeline": {"max_env_step": 50000},
}
"""CartPole, solved by DQN with mellowmax."""
