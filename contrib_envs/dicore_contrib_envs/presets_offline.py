"""Presets of algorithms that learn from data sets; give the data by `pipeline.dataset`."""

from __future__ import annotations

from typing import Any


def _preset(
    env: str,
    policy: str,
    *,
    learn: dict[str, Any] | None = None,
    pipeline: dict[str, Any] | None = None,
    **options: object,
) -> dict[str, Any]:
    """Returns a preset with small networks; the options that all share are here."""
    return {
        "env": {"type": env, "evaluator_env_num": 10},
        "policy": {
            "type": policy,
            "discount_factor": 0.99,
            "learn": {"batch_size": 128, "learning_rate": 1e-3, **(learn or {})},
            "eval": {"evaluator": {"eval_freq": 1_000}},
            **options,
        },
        "pipeline": {"max_train_iter": 10_000, **(pipeline or {})},
    }


_SMALL = {"actor_hidden_size_list": [64, 64], "critic_hidden_size_list": [64, 64]}
_DISCRETE = {"encoder_hidden_size_list": [128, 128]}
_TARGET = {"target_theta": 0.01}

PENDULUM_TD3_BC = _preset("pendulum", "td3_bc", model=_SMALL, learn={**_TARGET, "alpha": 40.0})
"""TD3+BC on Pendulum.

An action changes the return by a hundredth, so the weight of the Q values is large.
"""

PENDULUM_CQL = _preset("pendulum", "cql", model=_SMALL, learn={**_TARGET, "n_action": 4})
"""CQL on Pendulum."""

_SCALED: dict[str, Any] = {
    "model": _SMALL,
    "learn": {**_TARGET, "temperature": 0.01},
    "pipeline": {"dataset": {"reward_scale": 0.01}},
}
"""An action changes the return by a hundredth, which Q networks tell only of scaled rewards."""

PENDULUM_IQL = _preset("pendulum", "iql", **_SCALED)
"""IQL on Pendulum."""

PENDULUM_AWAC = _preset("pendulum", "awac", **_SCALED)
"""AWAC on Pendulum."""

PENDULUM_EDAC = _preset("pendulum", "edac", model={**_SMALL, "num_critics": 10}, learn=_TARGET)
"""EDAC on Pendulum."""

PENDULUM_BCQ = _preset(
    "pendulum", "bcq", model={**_SMALL, "vae_hidden_size_list": [64, 64]}, learn=_TARGET
)
"""BCQ on Pendulum."""

PENDULUM_SAC_N = _preset("pendulum", "sac_n", model={**_SMALL, "num_critics": 20}, learn=_TARGET)
"""SAC-N on Pendulum; with twice as many networks as EDAC."""

PENDULUM_REBRAC = _preset(
    "pendulum",
    "rebrac",
    model={**_SMALL, "obs_norm": True},
    learn={**_TARGET, "actor_penalty": 0.02, "critic_penalty": 0.0},
    pipeline={"dataset": {"derived": ["next_action"], "reward_scale": 0.05}},
)
"""ReBRAC on Pendulum, with the weight and the normalised observations of TD3+BC.

Normalised layers learn values of hundreds slowly, so rewards are scaled: -177 after 3,000 updates
on 10,000 mixed steps, and -379 with rewards as they are (1 seed).
"""

PENDULUM_CAL_QL = _preset(
    "pendulum",
    "cal_ql",
    model=_SMALL,
    learn={**_TARGET, "n_action": 4},
    pipeline={"dataset": {"derived": ["discounted_return"]}},
)
"""Cal-QL on Pendulum, with the settings of CQL."""

PENDULUM_XQL = _preset("pendulum", "xql", **_SCALED)
"""XQL on Pendulum."""

_DECAYED = {
    "target_theta": 0.01,
    "max_grad_norm": 10.0,
    "learning_rate_end": 0.05,
    "learning_rate_decay": 6_000,
}

CARTPOLE_DISCRETE_CQL = _preset(
    "cartpole", "discrete_cql", model=_DISCRETE, learn=_DECAYED, nstep=5
)
"""CQL on CartPole; with returns of five steps, which differ more between actions than of one."""

CARTPOLE_DISCRETE_BCQ = _preset(
    "cartpole", "discrete_bcq", model=_DISCRETE, learn=_DECAYED, nstep=5
)
"""BCQ on CartPole; with returns of five steps, as CQL."""

CARTPOLE_DT = _preset(
    "cartpole",
    "dt",
    model={"hidden_size": 64, "num_layers": 2},
    learn={"batch_size": 64},
    pipeline={
        "max_train_iter": 3_000,
        "dataset": {"unroll_len": 20, "derived": ["return_to_go", "timestep"]},
    },
)
"""Decision transformer on CartPole."""
