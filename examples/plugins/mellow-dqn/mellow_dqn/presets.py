"""A preset that solves CartPole."""

from __future__ import annotations

from typing import Any

CARTPOLE_MELLOW_DQN: dict[str, Any] = {
    "env": {"type": "cartpole", "collector_env_num": 8, "evaluator_env_num": 10},
    "policy": {
        "type": "mellow_dqn",
        "nstep": 3,
        "discount_factor": 0.99,
        "model": {"encoder_hidden_size_list": [128, 128, 64], "layer_norm": True},
        "learn": {
            "batch_size": 128,
            "update_per_collect": 128,
            "learning_rate": 4e-3,
            "learning_rate_end": 0.05,
            "learning_rate_decay": 12_000,
            "target_theta": 0.02,
            "max_grad_norm": 10.0,
            "omega": 10.0,
        },
        "collect": {"n_sample": 128, "random_collect_size": 512},
        "eval": {"evaluator": {"eval_freq": 512}},
        "other": {"eps": {"end": 0.02, "decay": 2000}},
    },
    "pipeline": {"max_env_step": 15_000},
}
"""CartPole, solved by DQN with mellowmax."""
