"""Small games with known answers: their options."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dicore.config.schema import frozen, option
from dicore.config.sections import EnvConfig
from dicore.errors import ConfigError

if TYPE_CHECKING:
    from dicore.interfaces.env import Env
    from dicore.run.env_factory import BuildContext

__all__ = ["KuhnPokerConfig", "MatrixGameConfig", "TicTacToeConfig", "TwoStepGameConfig"]


@frozen(kw_only=True)
class MatrixGameConfig(EnvConfig):
    """Two agents choose at once and are paid by a table (Claus and Boutilier 1998).

    The best return is that of the table: 11 of `climbing`, 10 of `penalty`, 8 of `qtran`.
    """

    game: str = option(
        "climbing", "table of payoffs, if `payoff` has none",
        choices=("climbing", "penalty", "qtran"),
    )  # fmt: skip
    penalty: float = option(-100.0, "payoff of both corners of `penalty` that do not fit", le=0)
    payoff: list[Any] | None = option(
        None, "own table: n rows of n payoffs of the team, or of n pairs, one payoff per agent"
    )
    n_evaluator_episode: int = option(5, "episodes per evaluation", ge=1)

    def table(self) -> list[Any]:
        """Returns the payoffs."""
        from dicore_agents.envs.matrix_game import GAMES, payoff_table

        table = payoff_table(GAMES[self.game] if self.payoff is None else self.payoff)
        if self.payoff is None and self.game == "penalty":
            table[(0, 2), (0, 2)] = self.penalty
        return list(table.tolist())

    def from_spec(self) -> dict[str, object]:
        """Returns the largest payoff as `stop_value`; no end where agents have their own."""
        rows = self.table()
        if isinstance(rows[0][0], list):
            return {"stop_value": math.inf}
        return {"stop_value": max(max(row) for row in rows)}

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Makes one environment.

        Raises:
            ConfigError: `payoff` is no table, or stands beside `penalty`.
        """
        from dicore_agents.envs.matrix_game import MatrixGame

        if self.payoff is not None and self.game != "climbing":
            raise ConfigError(
                f"env.payoff: game='{self.game}' has a table of its own", hint="drop one of both"
            )
        return MatrixGame(self.table())


@frozen(kw_only=True)
class TwoStepGameConfig(EnvConfig):
    """Two agents choose a game and play it (Rashid et al. 2018); the best return is 8."""

    n_evaluator_episode: int = option(5, "episodes per evaluation", ge=1)
    stop_value: float = option(8.0, "mean episode return at which training stops")

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Makes one environment."""
        from dicore_agents.envs.two_step_game import TwoStepGame

        return TwoStepGame()


@frozen(kw_only=True)
class TicTacToeConfig(EnvConfig):
    """Three in a row, two agents in turn; perfect players draw."""

    n_evaluator_episode: int = option(20, "episodes per evaluation", ge=1)
    stop_value: float = option(math.inf, "mean episode return at which training stops; inf: never")

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Makes one environment."""
        from dicore_agents.envs.tictactoe import TicTacToe

        return TicTacToe(render_mode="ansi")


@frozen(kw_only=True)
class KuhnPokerConfig(EnvConfig):
    """Poker with three cards, two agents in turn; the first loses 1/18 per game at best."""

    n_evaluator_episode: int = option(100, "episodes per evaluation", ge=1)
    stop_value: float = option(math.inf, "mean episode return at which training stops; inf: never")

    def build(self, ctx: BuildContext | None, **parts: object) -> Env:
        """Makes one environment."""
        from dicore_agents.envs.kuhn_poker import KuhnPoker

        return KuhnPoker()
