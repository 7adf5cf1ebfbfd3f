"""A league finds the mixed solution of a game in which every pure strategy loses to another."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.league import kuhn_exploitability, rps_distance, trained


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_mixture_of_a_league_draws_five_moves_alike(seed: int, tmp_path: Path) -> None:
    """Within 0.05 of a fifth each; naive self-play ends with one move, which two others beat."""
    league = trained("rps", "league", 16_384, seed, tmp_path)
    assert rps_distance(league, last=False) < 0.05
    naive = trained("rps", "naive", 4_096, seed, tmp_path)
    assert rps_distance(naive, last=True) > 0.2


@pytest.mark.learns
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [0, 1])
def test_fictitious_play_is_hardly_exploited_in_poker(seed: int, tmp_path: Path) -> None:
    """The mean over the copies; the last answer alone loses to one that knows it."""
    league = trained("kuhn_poker", "league", 122_880, seed, tmp_path)
    assert kuhn_exploitability(league, last=False) < 0.05
    assert kuhn_exploitability(league, last=True) > 0.1
