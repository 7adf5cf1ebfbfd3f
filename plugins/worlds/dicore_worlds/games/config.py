"""Options of board games."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import attrs

from dicore.config import EnvConfig, frozen, option
from dicore.run.env_factory import BuildContext

if TYPE_CHECKING:
    from dicore_worlds.games.board_game import BoardGame

__all__ = ["BoardGameConfig"]


@frozen(kw_only=True)
class BoardGameConfig(EnvConfig):
    """Tic-tac-toe or connect four; collecting plays both sides, evaluations meet an opponent."""

    game: str = option(
        "tictactoe", "what is played", choices=("tictactoe", "connect_four")
    )  # fmt: skip
    opponent: str = option(
        "minimax", "who plays the other side: minimax (a search to `depth`) or random moves",
        choices=("minimax", "random"),
    )  # fmt: skip
    depth: int = option(
        9, "moves that minimax looks ahead; 9 is perfect play of tictactoe, 6 good connect_four",
        ge=1, le=12,
    )  # fmt: skip
    self_play: bool = option(
        True, "collect by playing both sides; False: against the opponent, as evaluations do"
    )
    n_evaluator_episode: int = option(50, "episodes per evaluation", ge=1)
    stop_value: float = option(
        float("inf"), "mean episode return at which training stops; inf: never"
    )

    def create_collector_env_cfg(self) -> list[Self]:
        """Returns the config of each collector environment."""
        return [self] * self.collector_env_num

    def create_evaluator_env_cfg(self) -> list[Self]:
        """Returns the config of each evaluator environment, against the opponent."""
        return [attrs.evolve(self, self_play=False)] * self.evaluator_env_num

    def build(self, ctx: BuildContext | None, **parts: object) -> BoardGame:
        """Makes one environment."""
        from dicore_worlds.games.board_game import BoardGame
        from dicore_worlds.games.line_game import GAMES

        opponent = None if self.self_play else self.opponent
        return BoardGame(GAMES[self.game], opponent, self.depth)
