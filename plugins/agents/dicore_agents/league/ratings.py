"""Ratings of the participants of a league: Elo, and those of the library OpenSkill."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dicore.data import State, StateDict

__all__ = ["Ratings"]

_START = 1200.0
_STEP = 16.0
"""Most that one game changes an Elo rating."""
_MOST = 64
"""Games of a batch that OpenSkill rates one by one; larger batches are scaled down."""


class Ratings:
    """Elo and, where the package `openskill` is installed, mean and deviation of a strength.

    OpenSkill's are those of its model Plackett-Luce (Weng and Lin 2011), by default 25 and 25 / 3.

    Attributes:
        elo: By name; 1200 at first.
        skill: (mu, sigma) by name; empty without `openskill`.
    """

    def __init__(self) -> None:
        self.elo: dict[str, float] = {}
        self.skill: dict[str, tuple[float, float]] = {}
        self._model: Any = None
        if importlib.util.find_spec("openskill") is not None:
            from openskill.models import PlackettLuce

            self._model = PlackettLuce()

    def enter(self, name: str, like: str | None = None) -> None:
        """Adds a participant, rated like another one, or anew."""
        self.elo[name] = self.elo.get(like or "", _START)
        if self._model is not None:
            new = self._model.rating()
            self.skill[name] = self.skill.get(like or "", (float(new.mu), float(new.sigma)))

    def add(self, home: str, away: str, wins: int, draws: int, losses: int) -> None:
        """Rates the results of `home` against `away`."""
        games = wins + draws + losses
        if home == away or not games:
            return
        score = (wins + draws / 2) / games
        expected = 1 / (1 + 10 ** ((self.elo[away] - self.elo[home]) / 400))
        change = _STEP * min(games, _MOST) ** 0.5 * (score - expected)
        self.elo[home] += change
        self.elo[away] -= change
        if self._model is not None:
            self._rate(home, away, wins, draws, losses)

    def _rate(self, home: str, away: str, wins: int, draws: int, losses: int) -> None:
        share = min(1.0, _MOST / (wins + draws + losses))
        ranks = [(0, 1)] * round(wins * share) + [(1, 0)] * round(losses * share)
        ranks += [(0, 0)] * round(draws * share)
        first, second = (self._model.rating(*self.skill[name]) for name in (home, away))
        order = sorted(range(len(ranks)), key=lambda at: (at * 7919) % (len(ranks) + 1))
        for at in order:  # mixed: a run of wins would count less than it is worth
            (first,), (second,) = self._model.rate([[first], [second]], ranks=[*ranks[at]])
        self.skill[home] = float(first.mu), float(first.sigma)
        self.skill[away] = float(second.mu), float(second.sigma)

    def state_dict(self) -> StateDict:
        """Returns all ratings."""
        skill = {name: [*each] for name, each in self.skill.items()}
        return {"elo": dict(self.elo), "skill": skill}

    def load_state_dict(self, state: State) -> None:
        """Restores what `state_dict` returned."""
        self.elo = {str(name): float(each) for name, each in state["elo"].items()}
        self.skill = {
            str(name): (float(mu), float(sigma)) for name, (mu, sigma) in state["skill"].items()
        }
