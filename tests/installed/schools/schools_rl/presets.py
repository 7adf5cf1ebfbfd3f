"""Complete configs; the algorithms' defaults do the rest."""

from __future__ import annotations

from typing import Any

CARTPOLE_REINFORCE: dict[str, Any] = {
    "env": {"type": "cartpole", "collector_env_num": 8, "evaluator_env_num": 10},
    "policy": {
        "type": "reinforce",
        "collect": {"n_episode": 16},
        "eval": {"evaluator": {"eval_freq": 10}},
    },
}
"""CartPole with REINFORCE."""

PENDULUM_PPO: dict[str, Any] = {
    "env": {"type": "pendulum", "collector_env_num": 4},
    "policy": {
        "type": "school_ppo",
        "discount_factor": 0.9,
        "learn": {"learning_rate": 1e-3},
        "collect": {"n_sample": 4096},
    },
}
"""Pendulum with PPO."""

PENDULUM_SAC: dict[str, Any] = {
    "env": {"type": "pendulum", "collector_env_num": 1},
    "policy": {
        "type": "school_sac",
        "collect": {"n_sample": 1},
        "eval": {"evaluator": {"eval_freq": 500}},
        "other": {"replay_buffer": {"replay_buffer_size": 100_000}},
    },
}
"""Pendulum with SAC."""

RECALL_R2D2: dict[str, Any] = {
    "env": {"type": "recall", "stop_value": 1.0, "n_evaluator_episode": 40},
    "policy": {
        "type": "school_r2d2",
        "learn": {"update_per_collect": 4, "learning_rate": 2e-3},
        "collect": {"random_collect_size": 64},
        "eval": {"evaluator": {"eval_freq": 100}},
    },
}
"""The memory task with R2D2."""
