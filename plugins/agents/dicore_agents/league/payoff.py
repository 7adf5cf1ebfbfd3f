"""Who beat whom: wins, draws and losses of every two participants of a league, with decay.

Shapes: P participants.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dicore.data import State, StateDict

__all__ = ["Payoff", "mixture"]

Floats = npt.NDArray[np.float64]
_ROUNDS = 3_000
"""Steps of regret matching; with the mean weighted by step, errors fall faster than 1 / step."""


class Payoff:
    """Results between any two participants.

    Each new batch of results of a pair multiplies its older ones by `decay`, so that results of
    players that have learned since then fade.

    Args:
        decay: Weight of older results after a new batch; 1: none fade.
    """

    def __init__(self, decay: float = 0.99) -> None:
        self._decay = decay
        self._counts: dict[tuple[str, str], Floats] = {}

    def add(self, home: str, away: str, wins: float, draws: float, losses: float) -> None:
        """Adds results of `home` against `away`."""
        if home == away or not wins + draws + losses:
            return
        won, lost = (wins, draws, losses), (losses, draws, wins)
        for pair, new in (((home, away), won), ((away, home), lost)):
            old = self._counts.get(pair, np.zeros(3))
            self._counts[pair] = old * self._decay + np.array(new, np.float64)

    def games(self, home: str, away: str) -> float:
        """Returns the number of games, older ones counting less."""
        return float(self._of(home, away).sum())

    def results(self, home: str, away: str) -> tuple[float, float, float]:
        """Returns wins, draws and losses of `home` against `away`."""
        wins, draws, losses = (float(each) for each in self._of(home, away))
        return wins, draws, losses

    def win_rate(self, home: str, away: str) -> float:
        """Returns (wins + draws / 2) / games; 0.5 before the first game."""
        wins, draws, losses = self._of(home, away)
        games = wins + draws + losses
        return float((wins + draws / 2) / games) if games else 0.5

    def table(self, names: Sequence[str]) -> Floats:
        """Returns the win rates of all, [P, P]; 0.5 on the diagonal."""
        rates = [[self.win_rate(home, away) for away in names] for home in names]
        return np.array(rates).reshape(len(names), len(names))

    def forget(self, name: str) -> None:
        """Drops the results of a participant, which begins again."""
        self._counts = {pair: each for pair, each in self._counts.items() if name not in pair}

    def copy_as(self, name: str, new: str) -> None:
        """Gives a participant the results of another one, of which it is a frozen copy."""
        for (home, away), counts in [*self._counts.items()]:
            if home == name and away != new:
                self._counts[new, away] = counts.copy()
            elif away == name and home != new:
                self._counts[home, new] = counts.copy()

    def state_dict(self) -> StateDict:
        """Returns all results."""
        return {"pairs": [[*pair, *counts.tolist()] for pair, counts in self._counts.items()]}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        self._counts = {
            (str(home), str(away)): np.array(counts, np.float64)
            for home, away, *counts in state["pairs"]
        }

    def _of(self, home: str, away: str) -> Floats:
        return self._counts.get((home, away), np.zeros(3))


def mixture(rates: Floats) -> Floats:
    """Returns the weights of participants that no mixture of them beats, float64 [P].

    The solution of the symmetric game in which both choose a participant, by regret matching (Hart
    and Mas-Colell 2000) with the mean of its strategies.

    Args:
        rates: Win rates [P, P].
    """
    payoff = rates - rates.T
    regret, total = np.full(len(rates), 1e-9), np.zeros(len(rates))
    for number in range(1, _ROUNDS + 1):
        positive = np.maximum(regret, 0)
        most = positive.sum()
        strategy = positive / most if most > 0 else np.full(len(rates), 1 / len(rates))
        total += number * strategy
        value = payoff @ strategy
        regret = np.maximum(regret + value - strategy @ value, 0)
    weights: Floats = total / total.sum()
    return weights


def as_table(payoff: Payoff, names: Sequence[str]) -> Mapping[str, object]:
    """Returns the results as plain lists, for files and tables."""
    rates = payoff.table(names)
    games = [[payoff.games(home, away) for away in names] for home in names]
    return {"win_rate": rates.round(6).tolist(), "games": games}
