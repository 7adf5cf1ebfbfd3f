"""Advantages and returns of on-policy blocks: generalized advantage estimation (GAE).

Schulman et al. 2016 (arXiv:1506.02438), equation 16, for blocks that contain ends of episodes:

    delta_t = r_t + gamma (1 - done_t) V(s'_t) - V(s_t)
    A_t = delta_t + gamma lambda (1 - end_t) A_{t+1}

s'_t is the observation after step t: after a truncation the last one of the cut episode, not the
first one of the next. A termination (`done`) has no value after it; a truncation (`end` alone) has.

Shapes: T steps, N environments.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dicore.errors import SchemaError

Floats = npt.NDArray[np.float32]


def gae(
    reward: Floats,
    value: Floats,
    next_value: Floats,
    done: npt.NDArray[Any],
    end: npt.NDArray[Any],
    *,
    gamma: float,
    gae_lambda: float,
) -> Floats:
    """Computes the advantages A of each step; A + V are the returns to learn V from.

    Args:
        reward: float32 [T, N].
        value: float32 [T, N]; V(s).
        next_value: float32 [T, N]; V(s'), see `rows_after`.
        done: bool (or 0/1) [T, N]; s' is terminal.
        end: bool [T, N]; the episode's last step, terminated or truncated.
        gamma: Discount factor.
        gae_lambda: 0: one-step advantages (less variance); 1: returns minus V (no bias).

    Returns:
        float32 [T, N], in new memory.

    Raises:
        SchemaError: the shapes differ.
    """
    shapes = {np.shape(each) for each in (reward, value, next_value, done, end)}
    if len(shapes) > 1:
        raise SchemaError(
            "reward, value, next_value, done and end must all be [T, N]; got"
            f" {', '.join(map(str, sorted(shapes)))}"
        )
    discount = np.float32(gamma) * (1 - np.asarray(done, np.float32))
    advantage = reward + discount * next_value - value
    decay = np.float32(gamma * gae_lambda) * (1 - np.asarray(end, np.float32))
    for t in range(len(advantage) - 2, -1, -1):
        advantage[t] += decay[t] * advantage[t + 1]
    return advantage.astype(np.float32, copy=False)
