"""Presets of this package."""

from __future__ import annotations

from typing import Any

__all__ = [
    "CARTPOLE_ARS",
    "CARTPOLE_MRQ",
    "MAZE_PROCEDURE_CLONING",
    "PENDULUM_BRO",
    "PENDULUM_DIFFUSION_POLICY",
    "PENDULUM_FAST_TD3",
    "PENDULUM_FLASH_SAC",
    "PENDULUM_MRQ",
    "PENDULUM_POMDP_RECURRENT_SAC",
    "PENDULUM_POMDP_RECURRENT_TD3",
    "PENDULUM_QGPO",
    "SWIMMER_ARS",
]

CARTPOLE_ARS: dict[str, Any] = {
    "env": {"type": "cartpole", "collector_env_num": 8, "evaluator_env_num": 10},
    "policy": {
        "type": "ars",
        "learn": {"learning_rate": 0.02},
        "collect": {"n_episode": 16, "noise": 0.05},
        "eval": {"evaluator": {"eval_freq": 10}},
    },
}
"""Random search of a linear policy on CartPole; 475 after 11k to 76k env steps (5 seeds)."""

SWIMMER_ARS: dict[str, Any] = {
    "env": {"type": "swimmer", "collector_env_num": 4, "evaluator_env_num": 4},
    "policy": {
        "type": "ars",
        "model": {"obs_norm": True, "bias": False},
        "learn": {"learning_rate": 0.02},
        "collect": {"n_episode": 4, "noise": 0.02},
        "eval": {"evaluator": {"eval_freq": 10}},
    },
}
"""Augmented random search (V2) of a linear policy on Swimmer: 251 after 950k env steps (seed 0)."""


def _small_mrq(env: str) -> dict[str, Any]:
    """Returns a preset of MR.Q with small networks, for one CPU core; alike for all actions."""
    return {
        "env": {"type": env, "collector_env_num": 1, "evaluator_env_num": 10},
        "policy": {
            "type": "mrq",
            "model": {
                "state_features": 64,
                "action_features": 32,
                "joint_features": 64,
                "units": 64,
            },
            "learn": {
                "batch_size": 128,
                "learning_rate": 1e-3,
                "encoder_learning_rate": 1e-3,
                "target_update_freq": 50,
            },
            "collect": {"random_collect_size": 500},
            "eval": {"evaluator": {"eval_freq": 1000}},
            "other": {"replay_buffer": {"replay_buffer_size": 100_000}},
        },
    }


CARTPOLE_MRQ = _small_mrq("cartpole")
"""MR.Q on CartPole with small networks; solved in 1.5k, 3.0k and 1.0k env steps (3 seeds)."""

PENDULUM_MRQ = _small_mrq("pendulum")
"""MR.Q on Pendulum, as `cartpole_mrq`.

-240, -136 and -151 after 1.5k, 1.0k and 3.0k env steps (3 seeds; `sac` -240 after 3.1k, 1 seed).
"""

PENDULUM_BRO: dict[str, Any] = {
    "env": {"type": "pendulum", "collector_env_num": 1, "evaluator_env_num": 10},
    "policy": {
        "type": "bro",
        "model": {
            "actor_hidden_size_list": [64],
            "critic_hidden_size_list": [64, 64],
            "num_quantiles": 32,
        },
        "learn": {"update_per_step": 2.0, "learning_rate": 1e-3, "resets": []},
        "collect": {"random_collect_size": 300},
        "eval": {"evaluator": {"eval_freq": 1000}},
        "other": {"replay_buffer": {"replay_buffer_size": 100_000}},
    },
}
"""BRO on Pendulum with small networks, two updates per env step and no resets, for one CPU core.

-172, -119 and -164 after 1.8k, 2.3k and 3.3k env steps (3 seeds).
"""

PENDULUM_FAST_TD3: dict[str, Any] = {
    "env": {"type": "pendulum", "collector_env_num": 32, "evaluator_env_num": 10},
    "policy": {
        "type": "fast_td3",
        "discount_factor": 0.97,
        "model": {
            "actor_hidden_size_list": [64, 64],
            "critic_hidden_size_list": [128, 128],
            "n_atom": 51,
            "v_min": -400.0,
            "v_max": 0.0,
        },
        "learn": {
            "batch_size": 512,
            "update_per_collect": 4,
            "learning_rate": 1e-3,
            "optimizer": {"weight_decay": 1e-3},
        },
        "collect": {"n_sample": 32, "random_collect_size": 640},
        "eval": {"evaluator": {"eval_freq": 200}},
        "other": {"replay_buffer": {"replay_buffer_size": 100_000}},
    },
}
"""FastTD3 on 32 Pendulums with small networks, for one CPU core.

-171, -206 and -155 after 5.4k, 5.4k and 7.0k env steps, which took 600 and 800 updates (3 seeds).
"""

PENDULUM_FLASH_SAC: dict[str, Any] = {
    "env": {"type": "pendulum", "collector_env_num": 32, "evaluator_env_num": 10},
    "policy": {
        "type": "flash_sac",
        "discount_factor": 0.97,
        "model": {
            "actor_hidden_size_list": [32],
            "critic_hidden_size_list": [64],
            "n_atom": 51,
        },
        "learn": {
            "batch_size": 256,
            "update_per_collect": 8,
            "learning_rate": 3e-3,
            "target_theta": 0.05,
        },
        "collect": {"n_sample": 32, "random_collect_size": 640},
        "eval": {"evaluator": {"eval_freq": 200}},
        "other": {"replay_buffer": {"replay_buffer_size": 100_000}},
    },
}
"""FlashSAC on 32 Pendulums with small networks, for one CPU core.

-201, -167 and -189 after 5.4k, 5.4k and 3.8k env steps, which took 1,200, 1,200 and 800 updates
(3 seeds).
"""

PENDULUM_DIFFUSION_POLICY: dict[str, Any] = {
    "env": {"type": "pendulum", "evaluator_env_num": 10},
    "policy": {
        "type": "diffusion_policy",
        "model": {"units": 32, "blocks": 2},
        "action_steps": 2,
        "learn": {"batch_size": 128, "learning_rate": 1e-3},
        "collect": {"unroll_len": 9},
        "eval": {"evaluator": {"eval_freq": 500}},
    },
    "pipeline": {
        "max_train_iter": 10_000,
        "dataset": {"unroll_len": 9, "derived": ["timestep", "steps_to_go"]},
    },
}
"""Diffusion policy on Pendulum from demonstrations; give them by `pipeline.dataset.path`.

-161, -122 and -150 after 2,000 updates (3 seeds), from 50 episodes with a mean return of -145.
"""

PENDULUM_QGPO: dict[str, Any] = {
    "env": {"type": "pendulum", "evaluator_env_num": 10},
    "policy": {
        "type": "qgpo",
        "guidance_scale": 8.0,
        "model": {
            "actor_hidden_size_list": [64, 64],
            "critic_hidden_size_list": [64, 64],
            "energy_hidden_size_list": [64, 64],
            "obs_norm": True,
        },
        "learn": {
            "batch_size": 128,
            "learning_rate": 3e-3,
            "target_theta": 0.01,
            "behaviour_updates": 2_000,
            "n_action": 8,
            "support_steps": 5,
            "target_beta": 20.0,
            "beta": 40.0,
        },
        "eval": {"evaluator": {"eval_freq": 1_000}},
    },
    "pipeline": {"max_train_iter": 10_000, "dataset": {"reward_scale": 0.05}},
}
"""QGPO on Pendulum; give the data by `pipeline.dataset.path`.

Best evaluations on 10,000 mixed steps: -161, -531 and -571 after 6,000 updates (3 seeds); -159
after 10,000 (second seed). Inverse temperatures are 1 and 2 per unit of return.
"""


def _pendulum_pomdp(policy: str, *, alpha: float | None = None, **collect: Any) -> dict[str, Any]:
    """Returns a preset with small recurrent networks, for one CPU core."""
    learn = {"learning_rate": 1e-3, "target_theta": 0.02}
    return {
        "env": {"type": "pendulum_pomdp", "collector_env_num": 1, "evaluator_env_num": 10},
        "policy": {
            "type": policy,
            "discount_factor": 0.97,
            "model": {
                "rnn_hidden_size": 64,
                "embedding_size": 32,
                "actor_hidden_size_list": [64],
                "critic_hidden_size_list": [64],
            },
            "learn": learn if alpha is None else {**learn, "alpha": alpha},
            "collect": {"n_sample": 4, "random_collect_size": 600, **collect},
            "eval": {"evaluator": {"eval_freq": 1000}},
            "other": {"replay_buffer": {"burn_in": 4, "unroll_len": 16, "stride": 4}},
        },
    }


PENDULUM_POMDP_RECURRENT_SAC = _pendulum_pomdp("recurrent_sac", alpha=0.2)
"""SAC with recurrent networks on Pendulum without its velocity, for one CPU core.

-253, -214 and -210 in 15k, 6.6k and 15k env steps (3 seeds); `sac` -1135, -1214 and -958 in 15k.
"""

PENDULUM_POMDP_RECURRENT_TD3 = _pendulum_pomdp("recurrent_td3", noise=0.2)
"""TD3 with recurrent networks on Pendulum without its velocity, for one CPU core.

-218, -242 and -282 in 9.6k, 13.6k and 15k env steps (3 seeds).
"""

MAZE_PROCEDURE_CLONING: dict[str, Any] = {
    "env": {"type": "maze", "evaluator_env_num": 10},
    "policy": {
        "type": "procedure_cloning",
        "learn": {"learning_rate": 3e-3},
        "eval": {"evaluator": {"eval_freq": 250}},
    },
    "pipeline": {"max_train_iter": 3_000, "dataset": {"extra": ["procedure"]}},
}
"""Procedure cloning of breadth-first search; give its searches by `pipeline.dataset.path`.

0.99 to 1.0 of unseen mazes after 250 updates (3 seeds), from searches in 50; `bc` 0.1 after 3,000.
"""
