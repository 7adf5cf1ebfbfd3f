"""Battles of two trained policies, and what is shown of a league."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from dicore.data import EnvBatch
from dicore.errors import ConfigError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.run.launch import launch
from dicore_agents import Sides, TicTacToe, battle, payoff_picture, read_league, wilson
from dicore_agents.league.battle import Contestant, _played
from dicore_agents.league.command import command as league
from dicore_plugins.env_managers import BaseEnvManager
from dicore_tools.commands.eval import command as evaluate
from dicore_tools.reports.curves import find_runs
from dicore_tools.reports.page import page
from dicore_tools.reports.run_data import read_runs


def trained(folder: Path, env: str, policy: str, *overrides: str, mode: str | None = None) -> Path:
    launch(
        mode=mode, env=env, policy=policy, seed=0, exp_name=str(folder), max_env_step=256,
        overrides=["pipeline.logger=[]", "policy.collect.n_sample=64", "policy.learn.batch_size=16",
                   "env.stop_value=inf", "env.n_evaluator_episode=5", *overrides],
    )  # fmt: skip
    return folder


SIDE = "env.env_wrapper=[one_side]"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    at = tmp_path_factory.mktemp("battle")
    players = "pipeline.players=[{type: main, freeze_steps: 64}, league_exploiter]"
    return {
        "league": trained(at / "league", "tictactoe", "dqn", SIDE, players,
                          "pipeline.job_steps=64", mode="league"),
        "side": trained(at / "side", "tictactoe", "ppo", SIDE),
        "team": trained(at / "team", "tictactoe", "ippo"),
        "poker": trained(at / "poker", "kuhn_poker", "ppo", SIDE),
    }  # fmt: skip


def test_both_play_each_side_as_often(runs: dict[str, Path]) -> None:
    played = battle(runs["league"], runs["side"], n_episode=21)
    wins, draws, losses = played.results()
    assert wins + draws + losses == len(played.returns) == 21
    assert [sum(played.results(seat)) for seat in (0, 1)] == [11, 10]
    assert played.mean_return == pytest.approx((wins - losses) / 21)
    low, high = played.win_interval
    assert low <= wins / 21 <= high


def test_what_one_wins_the_other_loses(runs: dict[str, Path]) -> None:
    there = battle(runs["league"], runs["side"], n_episode=10)
    back = battle(runs["side"], runs["league"], n_episode=10)
    assert [there.results(seat) for seat in (0, 1)] == [back.results(seat)[::-1] for seat in (1, 0)]


def test_a_policy_of_all_agents_plays_one_side_too(runs: dict[str, Path]) -> None:
    there = battle(runs["team"], runs["side"], n_episode=10, seed=3)
    assert (
        there.results() == battle(runs["side"], runs["team"], n_episode=10, seed=3).results()[::-1]
    )
    assert battle(runs["team"], runs["team"], n_episode=2).mean_return == pytest.approx(0)


def test_sampled_games_differ_and_are_those_of_their_seed(runs: dict[str, Path]) -> None:
    one, same, other = (
        battle(runs["poker"], runs["poker"], n_episode=40, seed=seed, sample=True).returns
        for seed in (1, 1, 2)
    )
    assert one == same != other


def test_the_checkpoint_of_another_game_is_one_error(runs: dict[str, Path]) -> None:
    with pytest.raises(ConfigError) as error:
        battle(runs["side"], runs["poker"])
    assert len(error.value.problems) == 1
    assert "env.type: a battle is of one game" in str(error.value)
    assert "'tictactoe'" in str(error.value)
    assert "'kuhn_poker'" in str(error.value)


def test_wilson_has_the_known_values() -> None:
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)  # Newcombe 1998's method 3
    assert wilson(0, 10) == pytest.approx((0, 0.2775), abs=1e-4)
    assert wilson(0, 0) == (0, 1)


def run(command: Any, *words: object) -> str:
    """Returns what a command prints; of a copy, because a command keeps options of its group."""
    alone = copy.copy(command)
    answer = CliRunner().invoke(alone, [str(word) for word in words], catch_exceptions=False)
    assert answer.exit_code == 0
    return answer.stdout


def test_the_command_plays_a_frozen_copy_against_a_run(runs: dict[str, Path]) -> None:
    frozen = runs["league"] / "league" / "main_1"
    told = json.loads(run(evaluate, frozen, "--against", runs["league"], "-n", 8, "--json"))
    assert told["games"] == told["wins"] + told["draws"] + told["losses"] == 8
    assert "win rate" in run(evaluate, frozen, "--against", runs["league"], "-n", 2)
    with pytest.raises(UsageError, match=r"drop env\.x=1"):
        run(evaluate, frozen, "env.x=1", "--against", runs["league"])


def test_the_command_league_lists_participants(runs: dict[str, Path]) -> None:
    told = json.loads(run(league, runs["league"], "--json"))
    lines = run(league, runs["league"]).splitlines()
    assert len(lines) == 2 + len(told["participants"])
    assert sum(told["mixture"]) == pytest.approx(1, abs=0.01)
    with pytest.raises(UsageError, match=r"not the run of a league: it has no league\.json"):
        run(league, runs["side"])


@pytest.mark.parametrize(
    "change",
    [
        {"participants": [1]},
        {"participants": []},
        {"payoff": {"win_rate": [[0.5]], "games": [[0]]}},
        {"payoff": {"win_rate": "x"}},
        {"jobs": None},
    ],
)
def test_a_damaged_table_is_one_error(change: Any, runs: dict[str, Path], tmp_path: Path) -> None:
    told = json.loads((runs["league"] / "league.json").read_text())
    (tmp_path / "league.json").write_text(json.dumps({**told, **change}))
    with pytest.raises(UsageError, match=r"league\.json: cannot be read"):
        read_league(tmp_path)


def test_a_report_draws_payoffs_and_ratings(runs: dict[str, Path]) -> None:
    picture = payoff_picture(read_league(runs["league"]))
    assert picture.count("<rect") == len(read_league(runs["league"])["participants"]) ** 2
    found, _ = read_runs(find_runs([str(runs["league"]), str(runs["side"])]))
    text = page(found)
    assert picture in text
    assert "Elo of those that learn" in text
    assert text.count("<h2>League of") == 1


def test_a_policy_of_all_agents_sees_each_step_also_while_it_waits() -> None:
    class Mode:
        def __init__(self) -> None:
            self.asked: list[int] = []

        def forward(self, obs: Any) -> Any:
            batch = EnvBatch.of(obs)
            self.asked += batch.env_id.tolist()
            return batch.with_value({"action": batch.value["action_mask"].argmax(-1)})

        def reset(self, env_ids: list[int]) -> None:
            pass

    def player(mode: Mode) -> Contestant:
        return Contestant(SimpleNamespace(env=SimpleNamespace(env_wrapper=())), "", None, mode)

    modes, steps = (Mode(), Mode()), []
    envs = BaseEnvManager([TicTacToe] * 2)
    envs.launch()
    step = envs.step
    envs.step = lambda action, **more: steps.extend(action) or step(action, **more)  # type: ignore[method-assign, assignment, misc]
    _played(envs, Sides(EnvSpec.of(envs)), (player(modes[0]), player(modes[1])), 4)
    assert len(steps) > 12
    assert modes[0].asked == modes[1].asked == steps
