"""Presets of the relatives of DQN on CartPole: the preset `cartpole_dqn` with another policy."""

from __future__ import annotations

from typing import Any

from dicore_contrib_envs.presets import CARTPOLE_DQN
from dicore_contrib_envs.small_tasks import TWO_STEP_DQN


def _cartpole(policy: str, **changes: Any) -> dict[str, Any]:
    """Returns `cartpole_dqn` for a policy, with other options of it."""
    given = dict(CARTPOLE_DQN["policy"])
    given["model"] = {**given["model"], "layer_norm": False}  # tuned without
    changed = {
        key: {**given[key], **change} if isinstance(change, dict) else change
        for key, change in changes.items()
    }
    return {**CARTPOLE_DQN, "policy": {**given, "type": policy, **changed}}


_TWICE = {"evaluator": {"eval_freq": 512, "consecutive": 2}}
"""For algorithms that pass the stop value once by luck: a mean of ten episodes varies by 30."""
_RETURNS = {"v_min": 0.0, "v_max": 100.0}

CARTPOLE_C51 = _cartpole("c51", model={"v_min": 0.0, "v_max": 150.0, "n_atom": 76})
"""C51 on CartPole; solves it in about 3.6k env steps (median of 3 seeds).

The discounted return of an endless episode is 100. Atoms end above it: with 100 as the highest one,
the values of a solved task pile up there and no longer tell good actions from bad ones.
"""

CARTPOLE_BDQ = _cartpole("bdq")
"""Branching DQN on CartPole, whose action has one part."""

CARTPOLE_DDQN = {**CARTPOLE_DQN, "policy": {**CARTPOLE_DQN["policy"], "type": "ddqn"}}
"""Double DQN on CartPole: `cartpole_dqn` by another name."""

CARTPOLE_DUELING = _cartpole("dueling", model={"dueling": True, "layer_norm": True})
"""Dueling double DQN on CartPole."""

CARTPOLE_FQF = _cartpole(
    "fqf", learn={"fraction_learning_rate": 1e-5, "fraction_entropy_weight": 1e-3}
)
"""FQF on CartPole."""

CARTPOLE_SQN = _cartpole(
    "sqn",
    nstep=1,
    other={
        "replay_buffer": {"replay_buffer_size": 50_000},
        "eps": {"type": "linear", "start": 0.0, "end": 0.0},
    },
)
"""Soft Q-learning on CartPole."""

CARTPOLE_SQL = _cartpole(
    "sql",
    nstep=1,
    other={
        "replay_buffer": {"replay_buffer_size": 50_000},
        "eps": {"type": "linear", "start": 0.0, "end": 0.0},
    },
)
"""Soft Q-learning with a fixed temperature on CartPole; 2k to 6k env steps (4 seeds)."""

CARTPOLE_PQN: dict[str, Any] = {
    "env": {"type": "cartpole", "collector_env_num": 16, "evaluator_env_num": 10},
    "policy": {
        "type": "pqn",
        "discount_factor": 0.99,
        "model": {"encoder_hidden_size_list": [128, 128]},
        "learn": {
            "batch_size": 128,
            "epoch_per_collect": 4,
            "learning_rate": 1e-3,
            "learning_rate_end": 0.1,
            "anneal": 100_000,
            "td_lambda": 0.9,
        },
        "collect": {"n_sample": 512},
        "eval": {"evaluator": {"eval_freq": 80}},
        "other": {"eps": {"type": "linear", "start": 1.0, "end": 0.05, "decay": 20_000}},
    },
}
"""PQN on CartPole; 475 twice in a row after 24k env steps (median of 3 seeds)."""


def _recurrent(env: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Returns a preset of R2D2; the options that all tasks share are here."""
    policy: dict[str, Any] = {
        "type": "r2d2",
        "nstep": 3,
        "discount_factor": 0.99,
        "priority": False,
        "priority_IS_weight": False,
        "model": {
            "encoder_hidden_size_list": [64],
            "layer_norm": True,
            "initial_bias": "uniform",
            "rnn": "gru",
            "rnn_hidden_size": 64,
        },
        "learn": {
            "batch_size": 32,
            "update_per_collect": 32,
            "learning_rate": 2e-3,
            "huber_delta": 20.0,
            "target_theta": 0.02,
            "max_grad_norm": 10.0,
            "value_rescale": False,
        },
        "collect": {"n_sample": 8, "unroll_len": 16, "burn_in": 4},
        "eval": {"evaluator": {"eval_freq": 128}},
        "other": {
            "replay_buffer": {"type": "naive", "replay_buffer_size": 5_000},
            "eps": {"type": "linear", "start": 1.0, "end": 0.05, "decay": 4_000},
        },
    }
    for key, change in changes.items():
        policy[key] = {**policy[key], **change} if isinstance(change, dict) else change
    return {"env": {"collector_env_num": 8, "evaluator_env_num": 10, **env}, "policy": policy}


CARTPOLE_R2D2 = _recurrent({"type": "cartpole"})
"""R2D2 on CartPole; solves it in 14k env steps (median of 3 seeds: 2k to 36k)."""

CARTPOLE_POMDP_R2D2 = _recurrent({"type": "cartpole_pomdp"})
"""R2D2 on CartPole without velocities; return 400 in 9k to 26k env steps (3 seeds)."""

T_MAZE_R2D2 = _recurrent({"type": "t_maze"})
"""R2D2 on the T-maze with a corridor of 10 steps; return 4 in 3k to 4k env steps (3 seeds)."""

TWO_STEP_BDQ: dict[str, Any] = {**TWO_STEP_DQN, "policy": {**TWO_STEP_DQN["policy"], "type": "bdq"}}
"""Branching DQN on the two-step game: `two_step_dqn` with another policy."""

CARTPOLE_IQN = _cartpole("iqn", eval=_TWICE)
"""IQN on CartPole; ends when two evaluations in a row reach the stop value."""

CARTPOLE_MDQN = _cartpole("mdqn", nstep=1)
"""Munchausen DQN on CartPole."""

CARTPOLE_QRDQN = _cartpole("qrdqn", eval=_TWICE)
"""QR-DQN on CartPole; ends when two evaluations in a row reach the stop value.

9.7k and 8.2k env steps (2 seeds), and 477 and 478 in 100 other episodes. After a single evaluation
of 475 it is 430.
"""

CARTPOLE_RAINBOW = _cartpole(
    "rainbow",
    model=_RETURNS,
    other={
        "replay_buffer": {"type": "advanced", "replay_buffer_size": 50_000},
        "eps": {"type": "linear", "start": 0.0, "end": 0.0},
    },
)
"""Rainbow on CartPole; explores by the noise of the network alone."""
