"""A preset that solves CartPole."""

from __future__ import annotations

from typing import Any

CARTPOLE_COMBINED_DQN: dict[str, Any] = {
    "env": {"type": "cartpole", "stop_value": 475.0, "n_evaluator_episode": 10},
    "policy": {
        "type": "dqn",
        "learn": {"batch_size": 64, "learning_rate": 0.001},
        "collect": {"n_sample": 8},
        "other": {
            "replay_buffer": {"type": "combined", "replay_buffer_size": 50000},
            "eps": {"decay": 5000},
        },
    },
    "pipeline": {"max_env_step": 50000},
}
"""CartPole, solved by DQN with combined replay."""
