"""Options of leagues: the pipeline, its players, and the wrapper that shows one side of a game."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dicore.config.schema import ComponentConfig, components, frozen, option
from dicore.config.sections import PipelineConfig

if TYPE_CHECKING:
    from dicore.interfaces.env import Env
    from dicore.interfaces.pipeline import IPipeline
    from dicore.run.env_factory import BuildContext
    from dicore_agents.league.interface import ILeaguePlayer

__all__ = [
    "HistoricalConfig", "LeagueConfig", "LeagueExploiterConfig", "LearningPlayerConfig",
    "MainExploiterConfig", "MainPlayerConfig", "NaiveSelfPlayConfig", "OneSideConfig",
]  # fmt: skip

_WEIGHTINGS = ("squared", "variance", "linear", "uniform")


@frozen(kw_only=True)
class OneSideConfig(ComponentConfig):
    """Shows one side of a game of several agents; opponents play the others."""

    sides: list[list[str]] | None = option(
        None, "names of the agents by side, [[a, b], [c, d]]; None: each agent is a side"
    )
    seat: int | None = option(None, "number of the side shown; None: drawn for each episode", ge=0)
    opponent: str = option(
        "random",
        "who plays the others: `random`, or `scripted` by the environment; a league replaces it",
        choices=("random", "scripted"),
    )

    def build(self, ctx: BuildContext | None, **parts: Any) -> Env:
        """Wraps `env`."""
        from dicore_agents.league.one_side import OneSide
        from dicore_plugins.env_wrappers import from_gym

        return OneSide(from_gym(parts["env"]), self.sides, self.seat, self.opponent)


@frozen(kw_only=True)
class PlayerConfig(ComponentConfig):
    """What all players of a league have."""

    name: str | None = option(None, "name of the player; None: its type")


@frozen(kw_only=True)
class LearningPlayerConfig(PlayerConfig):
    """What players that learn have."""

    freeze_steps: int = option(
        20_000, "env steps after which a frozen copy of the player joins the league", ge=1
    )
    least_steps: int = option(5_000, "env steps before an earlier copy", ge=0)
    freeze_win_rate: float | None = option(
        0.7, "freeze earlier when the player wins as often against all rivals; None: never",
        ge=0, le=1,
    )  # fmt: skip
    reset: float = option(
        0.0, "probability of starting again with the first parameters after freezing", ge=0, le=1
    )
    weighting: str = option(
        "squared", "PFSP weight of an opponent against which the player wins with probability p:"
        " squared (1 - p)^2, variance p (1 - p), linear 1 - p, uniform 1",
        choices=_WEIGHTINGS,
    )  # fmt: skip
    against: list[str] | None = option(
        None, "names of the players whose present or frozen selves it meets; None: by its role"
    )


@frozen(kw_only=True)
class MainPlayerConfig(LearningPlayerConfig):
    """Meets itself, frozen players by PFSP, and those that beat it (AlphaStar)."""

    self_play: float = option(0.35, "share of jobs against its present self", ge=0, le=1)
    verification: float = option(
        0.15, "share of jobs against copies of itself that it lost to, and exploiters", ge=0, le=1
    )

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields shares that exceed 1."""
        if self.self_play + self.verification > 1:
            yield "verification", "exceeds 1 together with self_play"

    def build(self, ctx: BuildContext | None, **parts: object) -> ILeaguePlayer:
        """Makes the player."""
        from dicore_agents.league.players import MainPlayer

        return MainPlayer(self)


@frozen(kw_only=True)
class MainExploiterConfig(LearningPlayerConfig):
    """Meets the main players to find what beats them, then starts again (AlphaStar)."""

    reset: float = option(
        1.0, "probability of starting again with the first parameters after freezing", ge=0, le=1
    )
    hopeless: float = option(
        0.1, "win rate against a main player below which it meets frozen copies of it instead",
        ge=0, le=1,
    )  # fmt: skip

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that have no effect."""
        if self.weighting != "squared":
            yield "weighting", "has no effect, copies are drawn by variance; leave it out"

    def build(self, ctx: BuildContext | None, **parts: object) -> ILeaguePlayer:
        """Makes the player."""
        from dicore_agents.league.players import MainExploiter

        return MainExploiter(self)


@frozen(kw_only=True)
class LeagueExploiterConfig(LearningPlayerConfig):
    """Meets all frozen players by PFSP, and starts again at times (AlphaStar)."""

    reset: float = option(
        0.25, "probability of starting again with the first parameters after freezing", ge=0, le=1
    )

    def build(self, ctx: BuildContext | None, **parts: object) -> ILeaguePlayer:
        """Makes the player."""
        from dicore_agents.league.players import LeagueExploiter

        return LeagueExploiter(self)


@frozen(kw_only=True)
class NaiveSelfPlayConfig(LearningPlayerConfig):
    """Meets its present self alone: the baseline of leagues."""

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields the options that have no effect."""
        if self.weighting != "squared":
            yield "weighting", "has no effect, it meets itself alone; leave it out"

    def build(self, ctx: BuildContext | None, **parts: object) -> ILeaguePlayer:
        """Makes the player."""
        from dicore_agents.league.players import NaiveSelfPlay

        return NaiveSelfPlay(self)


@frozen(kw_only=True)
class HistoricalConfig(PlayerConfig):
    """A policy that does not learn: that of a run, or random moves."""

    run: str | None = option(
        None, "run folder, or folder of a checkpoint, of a policy with the same spaces and options;"
        " None: random moves",
    )  # fmt: skip

    def build(self, ctx: BuildContext | None, **parts: object) -> ILeaguePlayer:
        """Makes the player."""
        from dicore_agents.league.players import HistoricalPlayer

        return HistoricalPlayer(self)


@frozen(kw_only=True)
class LeagueConfig(PipelineConfig):
    """Trains a league in one process: players that learn against each other and frozen copies."""

    logger: tuple[ComponentConfig, ...] = components(
        "logger",
        default=("tensorboard", "console"),
        help="loggers for metrics, besides metrics.jsonl",
    )
    players: tuple[Any, ...] = components(
        "league_player",
        default=("main", "main_exploiter", "league_exploiter"),
        help="players of the league; the policy of the first that learns is that of the run",
    )
    job_steps: int = option(
        2_000, "env steps that a player learns against one opponent before the next job", ge=1
    )
    opponents: int = option(
        1,
        "opponents of a job, among whom the environments are shared out; raise it in games of"
        " imperfect information, where the best answer to one opponent loses against others",
        ge=1,
    )
    decay: float = option(
        0.99, "weight of older results of two players when new ones come; 1: results do not fade",
        gt=0, le=1,
    )  # fmt: skip
    sample: bool | None = option(
        None, "opponents draw their actions, with the least exploration of the schedule; None:"
        " those of on-policy algorithms, which learn probabilities",
    )  # fmt: skip
    final_eval: bool = option(True, "evaluate once more when a budget ends the training")

    def check(self) -> Iterator[tuple[str, str]]:
        """Yields loggers that are named twice."""
        for place, each in enumerate(self.logger):
            if each in self.logger[:place]:
                yield f"logger[{place}]", f"'{each.type}' is there already; leave it out"

    def build(self, ctx: BuildContext | None, **parts: object) -> IPipeline:
        """Creates the pipeline."""
        from dicore_agents.league.pipeline import LeaguePipeline

        return LeaguePipeline(self)


def named(players: tuple[Any, ...]) -> dict[str, Any]:
    """Returns the sections of players by name: the given one, else type, numbered if taken."""
    given = [getattr(each, "name", None) for each in players]
    found: dict[str, Any] = {}
    for name, each in zip(given, players, strict=True):
        kind = re.split("[/:.]", each.type)[-1].lower()  # the class of a code path
        number, free = 1, name or kind
        while name is None and (free in found or free in given):
            number += 1
            free = f"{kind}_{number}"
        found[free] = each
    return found
