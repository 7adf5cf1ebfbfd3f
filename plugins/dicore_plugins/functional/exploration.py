"""Schedules of exploration."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from dicore.errors import UsageError


def get_epsilon_greedy_fn(
    start: float, end: float, decay: float, type_: Literal["exp", "linear"] = "exp"
) -> Callable[[float], float]:
    """Returns how the chance of a random action falls with the env steps x.

    exp:    eps(x) = end + (start - end) exp(-x / decay)
    linear: eps(x) = start + (end - start) min(x / decay, 1)

    Args:
        start: Chance at x = 0, in [0, 1].
        end: Chance in the end, in [0, 1].
        decay: Time constant (exp) or length (linear) of the fall, in env steps, > 0.
        type_: Shape of the fall.

    Raises:
        UsageError: a number is out of its range or the shape is unknown.
    """
    if not (0 <= start <= 1 and 0 <= end <= 1):
        raise UsageError(f"epsilon must lie in [0, 1], got start={start!r}, end={end!r}")
    if not decay > 0:
        raise UsageError(f"decay of epsilon must be > 0, got {decay!r}")
    if type_ == "exp":
        return lambda x: end + (start - end) * math.exp(-x / decay)
    if type_ == "linear":
        return lambda x: start + (end - start) * min(x / decay, 1.0)
    raise UsageError(f"no schedule of epsilon is named '{type_}'", hint="one of exp, linear")
