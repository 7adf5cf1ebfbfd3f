"""The role of a league's player: whom it meets, and when it is frozen or begins again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from dicore_registry import Contract, Kind

if TYPE_CHECKING:
    import numpy as np

    from dicore_agents.league.payoff import Payoff

__all__ = ["KIND", "ILeaguePlayer", "Participant", "Standing"]

KIND = Kind(
    name="league_player",
    summary="a player of a league: whom it meets, and when it is frozen or begins again",
    contract="dicore_agents.league.interface:ILeaguePlayer",
    suite="dicore.testing.role:RoleContract",
)


@dataclass(frozen=True)
class Participant:
    """Somebody to meet in a league.

    Args:
        name: Its name; of a frozen copy, that of the player and a number, `main:3`.
        role: `main`, `main_exploiter`, `league_exploiter`, ...: the role of the player.
        of: Name of the player that learns, or of which it is a frozen copy.
        frozen: Its parameters do not change.
    """

    name: str
    role: str
    of: str
    frozen: bool


@dataclass
class Standing:
    """What players know of their league.

    Args:
        participants: All, in the order in which they entered.
        payoff: The results between them.
        steps: Env steps of each learning player since it was frozen, or began again.
    """

    participants: list[Participant]
    payoff: Payoff
    steps: dict[str, int] = field(default_factory=dict)

    def named(self, name: str) -> Participant:
        """Returns a participant."""
        return next(each for each in self.participants if each.name == name)

    def frozen(self, *, of: str | None = None, role: str | None = None) -> list[str]:
        """Returns the names of frozen participants, of a player or of a role if one is given."""
        return [
            each.name
            for each in self.participants
            if each.frozen and of in (None, each.of) and role in (None, each.role)
        ]

    def learning(self, role: str) -> list[str]:
        """Returns the names of the learning players of a role."""
        return [each.name for each in self.participants if not each.frozen and each.role == role]


@runtime_checkable
class ILeaguePlayer(Contract, Protocol):
    """Chooses its opponents, and says when it is frozen or begins again.

    Its `learns` says whether it has a policy that learns; `needs` names the roles of the players
    without which it has nobody to meet.
    """

    @property
    def learns(self) -> bool:
        """Its policy learns."""

    def opponent(self, name: str, standing: Standing, rng: np.random.Generator) -> str:
        """Returns the name of whom the player `name` meets next; its own name: its present self."""

    def should_freeze(self, name: str, standing: Standing) -> bool:
        """Returns whether a copy of it is frozen now."""

    def should_reset(self, name: str, standing: Standing, rng: np.random.Generator) -> bool:
        """Returns whether it begins again with new parameters, after it was frozen."""
