"""The players of a league, as of AlphaStar (Vinyals et al. 2019).

Each says whom it meets next, when a copy of it is frozen, and when it begins again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dicore_agents.league.matchmaking import pfsp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dicore_agents.league.config import (
        HistoricalConfig,
        LearningPlayerConfig,
        MainExploiterConfig,
        MainPlayerConfig,
    )
    from dicore_agents.league.interface import Standing

__all__ = ["HistoricalPlayer", "LeagueExploiter", "MainExploiter", "MainPlayer", "NaiveSelfPlay"]


class _Learner:
    """A player that learns; it is frozen after `freeze_steps`, and earlier where it wins.

    Args:
        cfg: Its options.
    """

    learns = True

    def __init__(self, cfg: LearningPlayerConfig) -> None:
        self._cfg = cfg

    def opponent(self, name: str, standing: Standing, rng: np.random.Generator) -> str:
        """Returns whom it meets next."""
        raise NotImplementedError

    def rivals(self, name: str, standing: Standing) -> list[str]:
        """Returns those whom it has to beat to be frozen before `freeze_steps`."""
        return self._meets(standing.frozen(), standing)

    def should_freeze(self, name: str, standing: Standing) -> bool:
        """Returns whether it beats all rivals, after `least_steps`, or `freeze_steps` are over."""
        steps = standing.steps.get(name, 0)
        if steps >= self._cfg.freeze_steps:
            return True
        rivals = self.rivals(name, standing)
        if steps < self._cfg.least_steps or not rivals or self._cfg.freeze_win_rate is None:
            return False
        rates = [standing.payoff.win_rate(name, rival) for rival in rivals]
        return bool(min(rates) >= self._cfg.freeze_win_rate)

    def should_reset(self, name: str, standing: Standing, rng: np.random.Generator) -> bool:
        """Returns whether it begins again after it was frozen."""
        return bool(rng.random() < self._cfg.reset)

    def _meets(self, names: Sequence[str], standing: Standing) -> list[str]:
        """Returns those of several participants that the option `against` allows."""
        if self._cfg.against is None:
            return [*names]
        return [name for name in names if standing.named(name).of in self._cfg.against]

    def _present(self, name: str, standing: Standing) -> list[str]:
        """Returns the other players that learn, of those that `against` allows."""
        learning = [each.name for each in standing.participants if not each.frozen]
        return self._meets([each for each in learning if each != name], standing)

    def _drawn(
        self, name: str, names: Sequence[str], standing: Standing, rng: np.random.Generator,
        weighting: str | None = None,
    ) -> str:  # fmt: skip
        """Returns one of several opponents by PFSP."""
        rates = [standing.payoff.win_rate(name, each) for each in names]
        chances = pfsp(rates, weighting or self._cfg.weighting)
        return names[int(rng.choice(len(names), p=chances))]


class MainPlayer(_Learner):
    """Meets itself, all frozen participants by PFSP, and those that it cannot beat any more.

    With probability `self_play` it meets its present self, else with `verification` (of the whole)
    frozen main players against which it wins less than 0.3 and frozen exploiters, if there are any,
    else any frozen participant. Where `against` does not name it, it never meets its present self:
    before those that it names are frozen, it meets their present selves.
    """

    _cfg: MainPlayerConfig

    def opponent(self, name: str, standing: Standing, rng: np.random.Generator) -> str:
        """Returns whom it meets next."""
        frozen, draw = self._meets(standing.frozen(), standing), rng.random()
        meets_itself = self._cfg.against is None or name in self._cfg.against
        self_play = self._cfg.self_play if meets_itself else 0.0
        if meets_itself and (not frozen or draw < self_play):
            return name
        if not frozen:
            return self._drawn(name, self._present(name, standing), standing, rng)
        if draw < self_play + self._cfg.verification:
            lost = [
                each
                for each in standing.frozen(role="main")
                if standing.payoff.win_rate(name, each) < 0.3
            ]
            lost += standing.frozen(role="main_exploiter")
            if checked := self._meets(lost, standing):
                return self._drawn(name, checked, standing, rng)
        return self._drawn(name, frozen, standing, rng)


class MainExploiter(_Learner):
    """Meets the main players, to find what beats them; begins again whenever it was frozen.

    While it wins less than `hopeless` against a main player, it meets frozen copies of it instead,
    those of its own strength.
    """

    _cfg: MainExploiterConfig

    def rivals(self, name: str, standing: Standing) -> list[str]:
        """Returns the main players, or those learning players that `against` names."""
        if self._cfg.against is None:
            return standing.learning("main")
        learning = [each.name for each in standing.participants if not each.frozen]
        return self._meets(learning, standing)

    def opponent(self, name: str, standing: Standing, rng: np.random.Generator) -> str:
        """Returns whom it meets next."""
        mains = self.rivals(name, standing)
        main = mains[int(rng.integers(len(mains)))]
        copies = standing.frozen(of=main)
        if copies and standing.payoff.win_rate(name, main) < self._cfg.hopeless:
            return self._drawn(name, copies, standing, rng, "variance")
        return main


class LeagueExploiter(_Learner):
    """Meets all frozen participants by PFSP, to find what beats the whole league."""

    def opponent(self, name: str, standing: Standing, rng: np.random.Generator) -> str:
        """Returns whom it meets next; a learning one before anybody is frozen."""
        frozen = self._meets(standing.frozen(), standing)
        return self._drawn(name, frozen or self._present(name, standing), standing, rng)


class NaiveSelfPlay(_Learner):
    """Meets its present self alone."""

    def opponent(self, name: str, standing: Standing, rng: np.random.Generator) -> str:
        """Returns its own name."""
        return name


class HistoricalPlayer:
    """A policy that does not learn: of a run, or one that draws at random.

    Args:
        cfg: Its options.
    """

    learns = False

    def __init__(self, cfg: HistoricalConfig) -> None:
        self.run: str | None = cfg.run

    def opponent(self, name: str, standing: Standing, rng: np.random.Generator) -> str:
        """Returns its own name: nobody asks."""
        return name

    def should_freeze(self, name: str, standing: Standing) -> bool:
        """Returns False: it is frozen."""
        return False

    def should_reset(self, name: str, standing: Standing, rng: np.random.Generator) -> bool:
        """Returns False."""
        return False
