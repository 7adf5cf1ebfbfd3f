"""Payoffs, matchmaking, ratings, and whom players meet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dicore.errors import UsageError
from dicore_agents import (
    LeagueExploiter,
    LeagueExploiterConfig,
    MainExploiter,
    MainExploiterConfig,
    MainPlayer,
    MainPlayerConfig,
    NaiveSelfPlay,
    NaiveSelfPlayConfig,
    Participant,
    Payoff,
    Ratings,
    Standing,
    mixture,
    pfsp,
)
from tests.agents.league.games import RPS5

RATES = np.array([0.1, 0.5, 1.0])


@pytest.mark.parametrize(
    ("weighting", "weights"),
    [
        ("squared", [0.81, 0.25, 0]),
        ("variance", [0.09, 0.25, 0]),
        ("linear", [0.9, 0.5, 0]),
        ("uniform", [1, 1, 1]),
    ],
)
def test_pfsp_weighs_opponents_by_win_rate(weighting: str, weights: list[float]) -> None:
    assert pfsp(RATES, weighting) == pytest.approx(np.array(weights) / sum(weights))


def test_pfsp_draws_uniformly_from_those_that_are_all_beaten() -> None:
    assert pfsp([1.0, 1.0]).tolist() == [0.5, 0.5]


def test_pfsp_refuses_no_opponents_and_unknown_weightings() -> None:
    with pytest.raises(UsageError, match="nobody to choose from"):
        pfsp([])
    with pytest.raises(UsageError, match="unknown weighting 'cubic'; expected squared, variance"):
        pfsp([0.5], "cubic")


def test_results_count_for_both_and_fade() -> None:
    payoff = Payoff(decay=0.5)
    assert payoff.win_rate("a", "b") == 0.5
    payoff.add("a", "b", 4, 0, 0)
    payoff.add("b", "a", 2, 2, 0)
    assert payoff.results("a", "b") == (2, 2, 2)
    assert payoff.games("b", "a") == 6
    payoff.add("b", "a", 6, 0, 0)
    assert payoff.win_rate("b", "a") == pytest.approx((7 + 0.5) / 9)
    assert payoff.table(["a", "b"])[0, 1] == pytest.approx(1.5 / 9)


def test_a_frozen_copy_has_the_results_of_its_player_and_a_new_start_none() -> None:
    payoff = Payoff()
    payoff.add("a", "b", 3, 1, 0)
    payoff.copy_as("a", "a:1")
    payoff.forget("a")
    assert payoff.results("a:1", "b") == (3, 1, 0)
    assert payoff.results("b", "a:1") == (0, 1, 3)
    assert payoff.games("a", "b") == 0
    again = Payoff()
    again.load_state_dict(payoff.state_dict())
    assert again.results("a:1", "b") == (3, 1, 0)


def test_no_mixture_beats_that_of_rock_paper_scissors() -> None:
    rates = (np.array(RPS5)[..., 0] + 1) / 2
    assert mixture(rates) == pytest.approx(np.full(5, 0.2), abs=0.01)
    stronger = rates.copy()
    stronger[0], stronger[:, 0] = 1, 0
    stronger[0, 0] = 0.5
    assert mixture(stronger)[0] == pytest.approx(1, abs=0.01)


def test_who_wins_is_rated_higher() -> None:
    ratings = Ratings()
    for name in "abc":
        ratings.enter(name)
    for _ in range(20):
        ratings.add("a", "b", 8, 1, 1)
        ratings.add("b", "c", 8, 1, 1)
    assert ratings.elo["a"] > ratings.elo["b"] > ratings.elo["c"]
    assert sum(ratings.elo.values()) == pytest.approx(3600)
    pytest.importorskip("openskill")
    assert ratings.skill["a"][0] > ratings.skill["b"][0] > ratings.skill["c"][0]
    assert ratings.skill["a"][1] < 25 / 3
    ratings.enter("a:1", like="a")
    assert ratings.skill["a:1"] == ratings.skill["a"]
    again = Ratings()
    again.load_state_dict(ratings.state_dict())
    assert (again.elo, again.skill) == (ratings.elo, ratings.skill)


def standing(**rates: float) -> Standing:
    """Returns a league of one main player and both exploiters, each with two copies."""
    participants = []
    for role in ("main", "main_exploiter", "league_exploiter"):
        participants.append(Participant(role, role, role, frozen=False))
        participants += [Participant(f"{role}:{each}", role, role, frozen=True) for each in (1, 2)]
    made = Standing(participants, Payoff(), {"main": 10})
    for name, rate in rates.items():
        made.payoff.add("main", name.replace("__", ":"), 100 * rate, 0, 100 * (1 - rate))
    return made


def met(player: Any, name: str, league: Standing, count: int = 2000) -> dict[str, float]:
    rng = np.random.default_rng(0)
    names = [player.opponent(name, league, rng) for _ in range(count)]
    return {each: names.count(each) / count for each in names}


def test_the_main_player_meets_itself_copies_and_those_that_beat_it() -> None:
    league = standing(main__1=0.1, main__2=1, main_exploiter__1=1, main_exploiter__2=1,
                      league_exploiter__1=1, league_exploiter__2=0.5)  # fmt: skip
    player = MainPlayer(MainPlayerConfig())
    shares = met(player, "main", league)
    assert shares["main"] == pytest.approx(0.35, abs=0.03)
    assert shares["main:1"] == pytest.approx(0.15 + 0.5 * 0.81 / 1.06, abs=0.03)
    assert shares["league_exploiter:2"] == pytest.approx(0.5 * 0.25 / 1.06, abs=0.03)
    assert {*shares} == {"main", "main:1", "league_exploiter:2"}
    picky = MainPlayer(MainPlayerConfig(self_play=0, against=["main"]))
    assert met(picky, "main", league).keys() <= {"main:1", "main:2"}


def test_a_main_player_that_is_not_among_those_it_meets_never_meets_itself() -> None:
    league = standing(main_exploiter__1=0.5, main_exploiter__2=0.5)
    player = MainPlayer(MainPlayerConfig(self_play=0.5, against=["main_exploiter"]))
    shares = met(player, "main", league)
    assert shares.keys() == {"main_exploiter:1", "main_exploiter:2"}
    empty = Standing([each for each in league.participants if not each.frozen], Payoff())
    assert {*met(player, "main", empty)} == {"main_exploiter"}
    both = MainPlayer(MainPlayerConfig(self_play=0.5, against=["main", "main_exploiter"]))
    assert met(both, "main", league)["main"] == pytest.approx(0.5, abs=0.03)
    assert {*met(both, "main", empty)} == {"main"}


def test_a_main_exploiter_meets_the_main_player_or_its_copies() -> None:
    player = MainExploiter(MainExploiterConfig())
    assert {*met(player, "main_exploiter", standing())} == {"main"}
    league = standing(main_exploiter=0.95)
    assert {*met(player, "main_exploiter", league)} == {"main:1", "main:2"}


def test_a_league_exploiter_meets_copies_and_naive_self_play_itself() -> None:
    league = standing()
    shares = met(LeagueExploiter(LeagueExploiterConfig()), "league_exploiter", league)
    assert {*shares} == {each.name for each in league.participants if each.frozen}
    empty = Standing([each for each in league.participants if not each.frozen], Payoff())
    exploiter = LeagueExploiter(LeagueExploiterConfig())
    assert {*met(exploiter, "league_exploiter", empty)} == {"main", "main_exploiter"}
    assert {*met(NaiveSelfPlay(NaiveSelfPlayConfig()), "main", league)} == {"main"}


def test_players_are_frozen_after_their_steps_or_when_they_beat_all() -> None:
    player = MainExploiter(MainExploiterConfig(least_steps=50, freeze_steps=100))
    league = standing(main_exploiter=0.25)
    league.steps["main_exploiter"] = 49
    assert not player.should_freeze("main_exploiter", league)
    league.steps["main_exploiter"] = 50
    assert player.should_freeze("main_exploiter", league)
    league = standing(main_exploiter=0.5)
    league.steps["main_exploiter"] = 99
    assert not player.should_freeze("main_exploiter", league)
    league.steps["main_exploiter"] = 100
    assert player.should_freeze("main_exploiter", league)
    rng = np.random.default_rng(0)
    assert player.should_reset("main_exploiter", league, rng)
    assert not MainPlayer(MainPlayerConfig()).should_reset("main", league, rng)
