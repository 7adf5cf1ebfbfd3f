"""Presets of this package: level-based foraging, with the networks of Papoudakis et al. 2021.

On `Foraging-8x8-2p-2f-coop-v3`, unless `env.env_id` names another. Returns are at most 1. Actors of
PPO are judged by the actions that they draw, as in the paper: the likeliest block each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = [
    "LBFORAGING_IPPO", "LBFORAGING_MAPPO", "LBFORAGING_QMIX_V1", "LBFORAGING_QMIX_V2",
    "LBFORAGING_VDN_V1", "LBFORAGING_VDN_V2",
]  # fmt: skip

_FIELD = {"type": "lbforaging", "collector_env_num": 10, "n_evaluator_episode": 100}


def _current(policy: str) -> dict[str, Any]:
    """Returns the preset of an algorithm that learns from current samples."""
    return {
        "env": {**_FIELD, "team_reward": True},
        "policy": {
            "type": policy,
            "discount_factor": 0.99,
            "model": {"hidden_size_list": [128, 128], "activation": "relu"},
            "learn": {
                "learning_rate": 3e-4,
                "entropy_weight": 0.001,
                "batch_size": 500,
                "epoch_per_collect": 4,
            },
            "collect": {"n_sample": 2000},
            "eval": {"evaluator": {"eval_freq": 1600}},
        },
    }


def _replayed(
    policy: str, wrappers: Sequence[Any], decay: int, **learn: float | str
) -> dict[str, Any]:
    """Returns the preset of an algorithm that learns from a replay buffer.

    Of 100 episodes of random actions, one pays: priorities and 5-step targets make the most of it.
    A piece of food pays a player 0.25 on average. The second versions scale that, as the paper
    does, and are where the first ones end after less than half of their env steps.
    """
    return {
        "env": {**_FIELD, "env_wrapper": [*wrappers]},
        "policy": {
            "type": policy,
            "priority": True,
            "priority_IS_weight": True,
            "nstep": 5,
            "discount_factor": 0.99,
            "model": {"hidden_size_list": [128, 128]},
            "learn": {
                "batch_size": 512,
                "update_per_collect": 1,
                "target_theta": 0.01,
                **learn,
            },
            "collect": {"n_sample": 50, "random_collect_size": 5000},
            "eval": {"evaluator": {"eval_freq": 1000 * int(learn.get("update_per_collect", 1))}},
            "other": {
                "eps": {"type": "linear", "start": 1.0, "end": 0.05, "decay": decay},
                "replay_buffer": {"type": "advanced", "replay_buffer_size": 200_000},
            },
        },
    }


LBFORAGING_MAPPO = _current("mappo")
"""MAPPO on level-based foraging."""

LBFORAGING_IPPO = _current("ippo")
"""IPPO on level-based foraging."""

_FLAT = ({"type": "agent_flat_obs", "by_bounds": True},)
_SCALED: dict[str, float | str] = {
    "reward_scale": 20.0, "criterion": "mse", "update_per_collect": 2,
    "learning_rate": 5e-4, "learning_rate_end": 0.1, "learning_rate_decay": 80_000,
}  # fmt: skip

LBFORAGING_VDN_V1 = _replayed("vdn", (), 200_000, learning_rate=3e-4)
"""VDN on level-based foraging: 0.86 after 2M env steps, 0.56 without exploration."""

LBFORAGING_VDN_V2 = _replayed("vdn", (), 200_000, **_SCALED)
"""VDN on level-based foraging, with scaled rewards."""

LBFORAGING_QMIX_V1 = _replayed("qmix", _FLAT, 300_000, learning_rate=5e-4, max_grad_norm=10.0)
"""QMIX on level-based foraging: 0.62 after 2M env steps, 0.47 without exploration."""

LBFORAGING_QMIX_V2 = _replayed("qmix", (), 200_000, max_grad_norm=10.0, **_SCALED)
"""QMIX on level-based foraging, with scaled rewards. The mixer sees places as they are, 0 to 7, of
which it makes weights that are large enough for such values from the start."""
