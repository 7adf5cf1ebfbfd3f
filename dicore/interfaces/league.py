"""The league role: who plays whom, and when a player is kept; and the role of one player."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from dicore_registry.kind import Kind

KIND = Kind(
    name="league",
    summary="decides who plays whom",
    contract="dicore.interfaces.league:ILeague",
    suite="dicore.testing.role:RoleContract",
)

PLAYER_KIND = Kind(
    name="player",
    summary="one player of a league, learning or kept",
    contract="dicore.interfaces.league:IPlayer",
    suite="dicore.testing.role:RoleContract",
)


@runtime_checkable
class ILeague(Protocol):
    """Players, the jobs they are given, and what came of them."""

    def get_job_info(self, player_id: str) -> Mapping[str, Any]:
        """Returns whom a player plays next: its `player_id` and `checkpoint_path`."""

    def judge_snapshot(self, player_id: str, *, force: bool = False) -> bool:
        """Keeps a copy of a player if it has learned enough; returns whether it did."""

    def update_active_player(self, player_info: Mapping[str, Any]) -> None:
        """Takes what a learner tells of a player: `player_id` and `train_iteration`."""

    def finish_job(self, job_info: Mapping[str, Any]) -> None:
        """Takes the result of a job: who won."""

    def state_dict(self) -> dict[str, Any]:
        """Returns players and payoffs."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` returned."""


@runtime_checkable
class IPlayer(Protocol):
    """One player; a kept one is its own snapshot and never learned enough."""

    @property
    def player_id(self) -> str:
        """Its name in the league."""

    @property
    def checkpoint_path(self) -> str:
        """Where its parameters are."""

    @property
    def total_agent_step(self) -> int:
        """Steps it has learned from."""

    def is_trained_enough(self) -> bool:
        """Says whether it is time to keep a copy."""

    def snapshot(self) -> IPlayer:
        """Returns a copy of it that does not change any more."""

    def get_job(self, *, eval_flag: bool = False) -> Mapping[str, Any]:
        """Returns whom it wants to play.

        Args:
            eval_flag: To be measured, not to learn.
        """
