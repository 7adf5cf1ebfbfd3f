"""Presets of the relatives of PPO, most of them `cartpole_ppo` with another policy."""

from __future__ import annotations

from typing import Any

from dicore_contrib_envs.presets import CARTPOLE_PPO

_ENV = CARTPOLE_PPO["env"]
_FALLING = {"learning_rate": 3e-3, "learning_rate_end": 0.0, "anneal": 100_000}
_EVAL = {"evaluator": {"eval_freq": 40}}
_COLLECT = {"n_sample": 256, "gae_lambda": 0.8}

CARTPOLE_PPG: dict[str, Any] = {
    "env": _ENV,
    "policy": {
        "type": "ppg",
        "discount_factor": 0.98,
        "learn": {
            **_FALLING,
            "batch_size": 256,
            "epoch_per_collect": 20,
            "collect_per_phase": 16,
        },
        "collect": _COLLECT,
        "eval": _EVAL,
    },
}
"""PPG on CartPole: PPO with an auxiliary phase after 16 collects; 12k env steps (median of 3
seeds: 3k to 29k)."""

CARTPOLE_PPO_OFFPOLICY: dict[str, Any] = {
    "env": _ENV,
    "policy": {
        "type": "ppo_offpolicy",
        "discount_factor": 0.98,
        "learn": {"batch_size": 256, "update_per_collect": 20, "learning_rate": 2e-3},
        "collect": _COLLECT,
        "other": {"replay_buffer": {"replay_buffer_size": 512}},
        "eval": _EVAL,
    },
}
"""PPO on CartPole from a replay buffer of two collects; 6k and 12k env steps (two seeds)."""

CARTPOLE_IMPALA: dict[str, Any] = {
    "env": _ENV,
    "policy": {
        "type": "impala",
        "discount_factor": 0.98,
        "learn": {"learning_rate": 1e-3, "batch_size": 32, "update_per_collect": 4},
        "collect": {"n_sample": 16, "unroll_len": 8},
        "eval": {"evaluator": {"eval_freq": 16}},
    },
}
"""IMPALA on CartPole; solves it in about 10k env steps (median of 3 seeds)."""

CARTPOLE_ACER: dict[str, Any] = {
    "env": _ENV,
    "policy": {
        "type": "acer",
        "discount_factor": 0.98,
        "learn": {"learning_rate": 2e-3, "batch_size": 16, "update_per_collect": 8},
        "collect": {"n_sample": 8, "unroll_len": 16},
        "other": {"replay_buffer": {"replay_buffer_size": 256}},
        "eval": {"evaluator": {"eval_freq": 32}},
    },
}
"""ACER on CartPole; solves it in 11k env steps (median of 3 seeds: 3k to 26k)."""

CARTPOLE_POMDP_PPO: dict[str, Any] = {
    "env": {"type": "cartpole_pomdp", "collector_env_num": 8, "evaluator_env_num": 10},
    "policy": {
        "type": "ppo",
        "discount_factor": 0.98,
        "model": {
            "rnn": "gru",
            "obs_norm": True,
            "encoder_hidden_size_list": [64],
            "actor_head_hidden_size_list": [64],
            "critic_head_hidden_size_list": [64],
        },
        "learn": {"batch_size": 8, "epoch_per_collect": 10, "learning_rate": 1e-3},
        "collect": {"n_sample": 16, "unroll_len": 32, "gae_lambda": 0.9},
        "eval": {"evaluator": {"eval_freq": 80}},
    },
}
"""PPO with a recurrent network on CartPole without velocities; 9k to 44k env steps.

Positions and angles are small numbers, and their changes, which are the velocities, still smaller:
without `obs_norm` it reaches 295 in 100k env steps.
"""

CARTPOLE_TRPO: dict[str, Any] = {
    "env": {"type": "cartpole", "collector_env_num": 2, "evaluator_env_num": 10},
    "policy": {
        "type": "trpo",
        "learn": {"batch_size": 512, "value_epoch": 20},
        "collect": {"n_sample": 1024, "gae_lambda": 0.98},
        "eval": {"evaluator": {"eval_freq": 80}},
    },
}
"""TRPO on CartPole with the settings of rl-zoo3; 475 after 4k, 4k and 14k env steps (3 seeds)."""

PENDULUM_TRPO: dict[str, Any] = {
    "env": {"type": "pendulum", "collector_env_num": 2, "evaluator_env_num": 10},
    "policy": {
        "type": "trpo",
        "discount_factor": 0.9,
        "model": {"value_norm": True, "log_std_init": 1.0},
        "learn": {"value_epoch": 15},
        "collect": {"n_sample": 2048},
        "eval": {"evaluator": {"eval_freq": 240}},
    },
}
"""TRPO on Pendulum with the network of `pendulum_ppo`; solved in 41k to 49k env steps (3 seeds)."""
