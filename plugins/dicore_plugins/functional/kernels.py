"""The loops of `gae` and `nstep_return`, compiled by numba; imported on first use.

They do the sums of the NumPy code in the same order, so both give the same numbers. The inner loops
run over the environments and choose by value, not by branch, so that they are vectorised. Other
types and layouts than float32 and bool [T, N] in C order raise TypeError.

Shapes: T steps, N environments.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["gae", "nstep_return"]

_FLOATS, _FLAGS = "float32[:, ::1]", "boolean[:, ::1]"
_COLUMNS = ", ".join([_FLOATS] * 3 + [_FLAGS] * 2)


@njit(f"{_FLOATS}({_COLUMNS}, float64, float64)", cache=True, nogil=True)
def gae(reward, value, next_value, done, end, gamma, gae_lambda):  # type: ignore[no-untyped-def]
    """Computes advantages; see `dicore_plugins.functional.gae`.

    Raises:
        ValueError: the shapes differ.
    """
    steps, envs = shape = reward.shape
    if value.shape != shape or next_value.shape != shape or done.shape != shape:
        raise ValueError
    if end.shape != shape:
        raise ValueError
    discount, decay = np.float32(gamma), np.float32(gamma * gae_lambda)
    out = np.empty_like(reward)
    for t in range(steps):
        for n in range(envs):
            after = reward[t, n] + discount * next_value[t, n]
            out[t, n] = (reward[t, n] if done[t, n] else after) - value[t, n]
    for t in range(steps - 2, -1, -1):
        for n in range(envs):
            later = out[t, n] + decay * out[t + 1, n]
            out[t, n] = out[t, n] if end[t, n] | done[t, n] else later
    return out


@njit(
    f"{_FLOATS}({_FLOATS}, {_FLOATS}, {_FLAGS}, {_FLAGS}, int64, float64)", cache=True, nogil=True
)
def nstep_return(reward, next_value, done, end, nstep, gamma):  # type: ignore[no-untyped-def]
    """Computes n-step returns; see `dicore_plugins.functional.nstep_return`.

    Raises:
        ValueError: the shapes differ.
    """
    steps, envs = shape = reward.shape
    if next_value.shape != shape or done.shape != shape or end.shape != shape:
        raise ValueError
    discount = np.float32(gamma)
    one, out = np.empty_like(reward), np.empty_like(reward)
    for t in range(steps):
        for n in range(envs):
            after = reward[t, n] + discount * next_value[t, n]
            one[t, n] = out[t, n] = reward[t, n] if done[t, n] else after
    for _ in range(1, min(nstep, steps)):
        for t in range(steps - 1):
            for n in range(envs):
                after = reward[t, n] + discount * out[t + 1, n]
                out[t, n] = one[t, n] if end[t, n] | done[t, n] else after
    return out
