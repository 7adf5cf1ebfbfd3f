"""Matchmaking: the probability with which a player meets each of several opponents.

Prioritized fictitious self-play (PFSP) of AlphaStar (Vinyals et al. 2019): opponents are drawn in
proportion to f(p), where p is the player's win rate against them.

Shapes: P opponents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from dicore.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["WEIGHTINGS", "pfsp"]

Floats = npt.NDArray[np.float64]

WEIGHTINGS: Final[dict[str, Callable[[Floats], Floats]]] = {
    "squared": lambda p: (1 - p) ** 2,
    "variance": lambda p: p * (1 - p),
    "linear": lambda p: 1 - p,
    "uniform": np.ones_like,
}
"""f by name: `squared` meets those that win, `variance` those of equal strength."""


def pfsp(win_rates: Sequence[float] | Floats, weighting: str = "squared") -> Floats:
    """Returns the probability of each opponent, float64 [P]; uniform where all weights are 0.

    Args:
        win_rates: Of the player against each opponent, between 0 and 1.
        weighting: A key of `WEIGHTINGS`.

    Raises:
        UsageError: there is no opponent, or no such weighting.
    """
    rates = np.asarray(win_rates, np.float64)
    if not rates.size:
        raise UsageError("matchmaking has nobody to choose from")
    if weighting not in WEIGHTINGS:
        raise UsageError(f"unknown weighting '{weighting}'; expected {', '.join(WEIGHTINGS)}")
    weights = WEIGHTINGS[weighting](rates)
    total = weights.sum()
    if total < 1e-12:
        return np.full(len(rates), 1 / len(rates))
    return np.asarray(weights / total)
