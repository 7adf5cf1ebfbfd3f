"""Presets of the relatives of DQN on CartPole: the preset `cartpole_dqn` with another policy."""

from __future__ import annotations

from typing import Any

from dicore_contrib_envs.presets import CARTPOLE_DQN


def _cartpole(policy: str, **changes: Any) -> dict[str, Any]:
    """Returns `cartpole_dqn` for a policy, with other options of it."""
    given = dict(CARTPOLE_DQN["policy"])
    given["model"] = {**given["model"], "layer_norm": False}  # tuned without
    changed = {
        key: {**given[key], **change} if isinstance(change, dict) else change
        for key, change in changes.items()
    }
    return {**CARTPOLE_DQN, "policy": {**given, "type": policy, **changed}}


_RETURNS = {"v_min": 0.0, "v_max": 100.0}

CARTPOLE_C51 = _cartpole("c51", model=_RETURNS)
"""C51 on CartPole; solves it in about 3.6k env steps (median of 3 seeds)."""

CARTPOLE_IQN = _cartpole("iqn")
"""IQN on CartPole."""

CARTPOLE_MDQN = _cartpole("mdqn", nstep=1)
"""Munchausen DQN on CartPole."""

CARTPOLE_QRDQN = _cartpole("qrdqn")
"""QR-DQN on CartPole; solves it in about 8k env steps (median of 3 seeds)."""

CARTPOLE_RAINBOW = _cartpole(
    "rainbow",
    model=_RETURNS,
    other={
        "replay_buffer": {"type": "advanced", "replay_buffer_size": 50_000},
        "eps": {"type": "linear", "start": 0.0, "end": 0.0},
    },
)
"""Rainbow on CartPole; explores by the noise of the network alone."""
