"""What `dicore league --json` prints."""

from __future__ import annotations

from typing import Annotated, NotRequired, TypedDict

__all__ = ["League"]


class Participant(TypedDict):
    """A participant of a league."""

    name: Annotated[str, "its name"]
    role: Annotated[str, "kind of league player, or that it was frozen"]
    of: Annotated[str, "participant whose parameters it has"]
    frozen: Annotated[bool, "whether it no longer learns"]
    elo: Annotated[float, "rating; 1200 at the start"]
    mu: NotRequired[Annotated[float, "mean of its skill; needs the package openskill"]]
    sigma: NotRequired[Annotated[float, "deviation of its skill"]]


class Payoff(TypedDict):
    """Games between participants: a row for each, against each in their order."""

    win_rate: Annotated[list[list[float]], "of the row; a draw is half a win"]
    games: Annotated[list[list[float]], "number of games, which may be weighted by age"]


class League(TypedDict):
    """A league."""

    jobs: Annotated[int, "matches that were trained"]
    env_step: Annotated[int, "env steps so far"]
    train_iter: Annotated[int, "gradient updates so far"]
    participants: Annotated[list[Participant], "all participants"]
    payoff: Annotated[Payoff, "games between them"]
    mixture: Annotated[list[float], "weights of the mixture that no mixture beats"]
