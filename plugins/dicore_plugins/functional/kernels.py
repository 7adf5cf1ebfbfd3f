"""The loops of `gae` and `nstep_return`, compiled by numba; imported on first use.

They do the sums of the NumPy code in the same order, so both give the same numbers. Other types and
layouts than float32 and bool [T, N] in C order raise TypeError.

Shapes: T steps, N environments.
"""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["gae", "nstep_return"]

_FLOATS, _FLAGS = "float32[:, ::1]", "boolean[:, ::1]"
_COLUMNS = ", ".join([_FLOATS] * 3 + [_FLAGS] * 2)


@njit(f"{_FLOATS}({_COLUMNS}, float64, float64)", cache=True, nogil=True)  # type: ignore[untyped-decorator]
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
    for t in range(steps - 1, -1, -1):
        for n in range(envs):
            after = reward[t, n] + discount * next_value[t, n]
            delta = (reward[t, n] if done[t, n] else after) - value[t, n]
            if t < steps - 1:
                later = delta + decay * out[t + 1, n]
                delta = delta if end[t, n] or done[t, n] else later
            out[t, n] = delta
    return out


@njit(  # type: ignore[untyped-decorator]
    f"{_FLOATS}({_FLOATS}, {_FLOATS}, {_FLAGS}, {_FLAGS}, float32[::1])", cache=True, nogil=True
)
def nstep_return(reward, next_value, done, end, powers):  # type: ignore[no-untyped-def]
    """Computes n-step returns; see `dicore_plugins.functional.nstep_return`.

    `powers` are gamma^0 to gamma^n.

    Raises:
        ValueError: the shapes differ.
    """
    steps, envs = shape = reward.shape
    if next_value.shape != shape or done.shape != shape or end.shape != shape:
        raise ValueError
    nstep = len(powers) - 1
    out = np.empty_like(reward)
    for t in range(steps):
        for n in range(envs):
            total = reward[t, n]
            last = t
            while last < steps - 1 and last - t < nstep - 1 and not (end[last, n] or done[last, n]):
                last += 1
                total += powers[last - t] * reward[last, n]
            if not done[last, n]:
                total += powers[last - t + 1] * next_value[last, n]
            out[t, n] = total
    return out
