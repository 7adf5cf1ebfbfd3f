"""Presets of learning from demonstrations; tuned with 10 episodes shown, R2D3 with 20."""

from __future__ import annotations

from typing import Any

from dicore_contrib_envs.presets import CARTPOLE_DQN
from dicore_contrib_envs.presets_value import T_MAZE_R2D2

_CARTPOLE: dict[str, Any] = {"type": "cartpole", "collector_env_num": 8, "evaluator_env_num": 10}
_PENDULUM: dict[str, Any] = {"type": "pendulum", "collector_env_num": 8, "evaluator_env_num": 10}


def _offline(env: dict[str, Any], policy: str, max_train_iter: int, **options: object) -> Any:
    """Returns a preset of a policy that only learns from demonstrations."""
    return {
        "env": env,
        "policy": {"type": policy, "eval": {"evaluator": {"eval_freq": 1_000}}, **options},
        "pipeline": {"max_train_iter": max_train_iter},
    }


CARTPOLE_BC = _offline(_CARTPOLE, "bc", 10_000)
"""Behavioural cloning on CartPole."""

CARTPOLE_IBC = _offline(_CARTPOLE, "ibc", 10_000)
"""Implicit behavioural cloning on CartPole."""

PENDULUM_BC = _offline(
    _PENDULUM, "bc", 20_000, learn={"batch_size": 128, "criterion": "mse"},
    model={"encoder_hidden_size_list": [128, 128], "activation": "relu"},
)  # fmt: skip
"""Behavioural cloning on Pendulum."""

PENDULUM_IBC = _offline(_PENDULUM, "ibc", 20_000)
"""Implicit behavioural cloning on Pendulum."""


def _soft_q(policy: str, **learn: Any) -> dict[str, Any]:
    """Returns a preset of SQIL or RBC on CartPole."""
    return {
        "env": _CARTPOLE,
        "policy": {
            "type": policy,
            "discount_factor": 0.99,
            "model": {"type": "sqn", "temperature": 1.0, "encoder_hidden_size_list": [128, 128]},
            "learn": {
                "batch_size": 128,
                "update_per_collect": 64,
                "learning_rate": 1e-3,
                "target_theta": 0.01,
                "max_grad_norm": 10.0,
                **learn,
            },
            "collect": {"n_sample": 64},
            "eval": {"evaluator": {"eval_freq": 512}},
        },
    }


CARTPOLE_SQIL = _soft_q("sqil")
"""SQIL on CartPole."""

CARTPOLE_RBC = _soft_q("rbc")
"""Regularized behavioural cloning on CartPole."""

CARTPOLE_DQFD: dict[str, Any] = {
    "env": _CARTPOLE,
    "policy": {
        **CARTPOLE_DQN["policy"],
        "type": "dqfd",
        "collect": {"n_sample": 128, "random_collect_size": 0},
        "other": {"eps": {"type": "linear", "start": 0.05, "end": 0.01, "decay": 2_000}},
    },
}
"""DQfD on CartPole: `cartpole_dqn` with demonstrations and little exploration."""

CARTPOLE_BCO: dict[str, Any] = {
    "env": _CARTPOLE,
    "policy": {
        "type": "bco",
        "learn": {"batch_size": 128, "update_per_collect": 64},
        "collect": {"n_sample": 128, "random_collect_size": 1_024},
        "eval": {"evaluator": {"eval_freq": 512}},
    },
}
"""Behavioural cloning from observation on CartPole."""

_SEQUENCES: dict[str, Any] = {"type": "naive", "replay_buffer_size": 5_000}

T_MAZE_R2D3: dict[str, Any] = {
    **T_MAZE_R2D2,
    "policy": {
        **T_MAZE_R2D2["policy"],
        "type": "r2d3",
        "other": {
            "replay_buffer": {"agent": _SEQUENCES, "demo": {**_SEQUENCES, "share": 0.25}},
            "eps": {"type": "linear", "start": 0.2, "end": 0.05, "decay": 2_000},
        },
    },
}
"""R2D3 on the T-maze: `t_maze_r2d2` with demonstrations and less exploration."""
