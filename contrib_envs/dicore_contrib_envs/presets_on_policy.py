"""Presets of the relatives of PPO on CartPole."""

from __future__ import annotations

from typing import Any

_CARTPOLE = {"type": "cartpole", "collector_env_num": 8, "evaluator_env_num": 10}

CARTPOLE_IMPALA: dict[str, Any] = {
    "env": _CARTPOLE,
    "policy": {
        "type": "impala",
        "discount_factor": 0.98,
        "eval": {"evaluator": {"eval_freq": 32}},
    },
}
"""IMPALA on CartPole."""

CARTPOLE_ACER: dict[str, Any] = {
    "env": _CARTPOLE,
    "policy": {
        "type": "acer",
        "discount_factor": 0.98,
        "eval": {"evaluator": {"eval_freq": 32}},
    },
}
"""ACER on CartPole."""

CARTPOLE_PPG: dict[str, Any] = {
    "env": _CARTPOLE,
    "policy": {
        "type": "ppg",
        "discount_factor": 0.98,
        "learn": {
            "batch_size": 256,
            "epoch_per_collect": 20,
            "learning_rate": 3e-3,
            "learning_rate_end": 0.0,
            "anneal": 100_000,
            "collect_per_phase": 16,
        },
        "collect": {"n_sample": 256, "gae_lambda": 0.8},
        "eval": {"evaluator": {"eval_freq": 40}},
    },
}
"""PPG on CartPole: the preset of PPO with auxiliary phases."""

CARTPOLE_PPO_OFFPOLICY: dict[str, Any] = {
    "env": _CARTPOLE,
    "policy": {
        "type": "ppo_offpolicy",
        "discount_factor": 0.98,
        "learn": {"batch_size": 256, "update_per_collect": 20, "learning_rate": 1e-3},
        "collect": {"n_sample": 256, "gae_lambda": 0.8},
        "other": {"replay_buffer": {"replay_buffer_size": 512}},
        "eval": {"evaluator": {"eval_freq": 40}},
    },
}
"""PPO from a small replay buffer on CartPole."""
