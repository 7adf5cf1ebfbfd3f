"""Leagues as trainings: jobs, frozen copies, resuming, refusals."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from dicore.errors import ConfigError, UsageError
from dicore.run import read_state
from dicore.run.launch import launch
from dicore_agents.league.config import MainExploiterConfig, MainPlayerConfig, named
from tests.agents.league.games import RPS5

PLAYERS = [
    {"type": "main", "freeze_steps": 64, "least_steps": 64},
    {"type": "main_exploiter", "freeze_steps": 64, "least_steps": 32},
    {"type": "league_exploiter", "freeze_steps": 96, "reset": 0.5},
    {"type": "historical", "name": "random"},
]


RIVAL = """
class Rival:
    \"\"\"Meets the frozen copy that it beats least often.\"\"\"

    learns = True

    def __init__(self, freeze_steps: int = 64) -> None:
        self.freeze_steps = freeze_steps

    def opponent(self, name, standing, rng):
        rate = standing.payoff.win_rate
        return min(standing.frozen(), key=lambda other: rate(name, other), default=name)

    def should_freeze(self, name, standing):
        return standing.steps[name] >= self.freeze_steps

    def should_reset(self, name, standing, rng):
        return False
"""


def config(policy: str = "dqn", players: Any = PLAYERS, **env: Any) -> dict[str, Any]:
    game = env or {"type": "matrix_game", "payoff": RPS5}
    few = {"dqn": {"update_per_collect": 2, "batch_size": 16}, "ppo": {"batch_size": 16}}
    return {
        "env": {"env_wrapper": ["one_side"], "collector_env_num": 4, "evaluator_env_num": 2,
                "n_evaluator_episode": 4, "stop_value": 1e9, **game},
        "policy": {"type": policy, "model": {"encoder_hidden_size_list": [8]},
                   "learn": {**few.get(policy, {}),
                             "learner": {"hook": {"save_ckpt_after_iter": 4}}},
                   "collect": {"n_sample": 16, "random_collect_size": 0} if policy == "dqn"
                   else {"n_sample": 32}},
        "pipeline": {"type": "league", "job_steps": 32, "logger": [], "players": players},
    }  # fmt: skip


def trained(folder: Path, steps: int, **wishes: Any) -> Path:
    launch(config(**wishes), seed=1, exp_name=str(folder), max_env_step=steps)
    return folder


def table(folder: Path) -> Any:
    return json.loads((folder / "league.json").read_text())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("league") / "run", 384)


def test_players_take_turns_are_frozen_and_counted(whole: Path) -> None:
    told = table(whole)
    names = [row["name"] for row in told["participants"]]
    assert names[:4] == ["main", "main_exploiter", "league_exploiter", "random"]
    assert (told["jobs"], told["env_step"]) == (12, 384)
    assert {"main:1", "main:2", "main_exploiter:2", "league_exploiter:1"} <= {*names}
    assert [row["frozen"] for row in told["participants"][:4]] == [False, False, False, True]
    copies = {row["name"].replace(":", "_") for row in told["participants"] if ":" in row["name"]}
    assert {each.name for each in (whole / "league").iterdir()} == copies
    games = told["payoff"]["games"]
    assert sum(map(sum, games)) > 0
    assert all(games[at][at] == 0 for at in range(len(games)))


@pytest.mark.parametrize("policy", ["dqn", "ppo"])
def test_a_league_goes_on_as_if_it_had_not_been_killed(
    policy: str, whole: Path, tmp_path: Path
) -> None:
    if policy != "dqn":
        whole = trained(tmp_path / "whole", 384, policy=policy)
    killed = tmp_path / "killed"
    shutil.copytree(whole, killed)
    for each in [*(killed / "ckpt").iterdir()]:
        if not each.name.startswith("iteration_"):
            shutil.rmtree(each)
    saved = sorted((killed / "ckpt").iterdir(), key=lambda each: int(each.name.split("_")[1]))
    for each in saved[1:]:
        shutil.rmtree(each)
    (killed / "league.json").write_text("{}")
    shutil.rmtree(killed / "league" / "main_2")
    launch(resume=str(killed))
    assert table(killed) == table(whole)
    first, second = (read_state(each / "ckpt" / "final") for each in (whole, killed))
    assert first.keys() == second.keys()
    for name in ("learner", "main_exploiter_learner", "league_exploiter_learner"):
        mine, theirs = first[name]["policy"]["model"], second[name]["policy"]["model"]
        assert all((mine[key] == theirs[key]).all() for key in mine)


def test_a_longer_league_equals_one_that_was_longer_from_the_start(
    whole: Path, tmp_path: Path
) -> None:
    half = trained(tmp_path / "half", 192)
    launch(resume=str(half), max_env_step=384)
    assert table(half) == table(whole)


def test_players_are_named_apart() -> None:
    main, other = MainPlayerConfig(type="main"), MainExploiterConfig(name="main_2")
    players = (main, other, main, main)
    assert [*named(players)] == ["main", "main_2", "main_3", "main_4"]


def test_players_of_ones_own_are_asked_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "rival.py").write_text(RIVAL)
    monkeypatch.chdir(tmp_path)
    folder = trained(tmp_path / "run", 128, players=["./rival.py:Rival"])
    names = [row["name"] for row in table(folder)["participants"]]
    assert names[0] == "rival"
    assert names[1:] == ["rival:1", "rival:2"]


def test_a_job_has_several_opponents(tmp_path: Path) -> None:
    cfg = config()
    cfg["pipeline"]["opponents"] = 4
    folder = tmp_path / "run"
    launch(cfg, seed=1, exp_name=str(folder), max_env_step=384)
    lines = (folder / "log" / "league" / "league.txt").read_text().splitlines()
    jobs = [line.split("job ")[1].split(": ") for line in lines]
    assert max([number for number, *_ in jobs].count(each) for each in {job[0] for job in jobs}) > 1
    games = sum(sum(map(int, re.findall(r"(\d+) (?:won|drawn|lost)", line))) for line in lines)
    assert games == 384


def test_a_frozen_copy_keeps_its_parameters_and_is_a_checkpoint(whole: Path) -> None:
    first, second = (
        read_state(whole / "league" / name)["learner"]["policy"]["model"]
        for name in ("main_1", "main_2")
    )
    assert any((first[key] != second[key]).any() for key in first)


def test_a_league_meets_the_policy_of_another_run(whole: Path, tmp_path: Path) -> None:
    players = [
        PLAYERS[0],
        {"type": "historical", "name": "old", "run": str(whole / "league/main_1")},
    ]
    run = trained(tmp_path / "run", 384, players=players)
    told = table(run)
    names = [row["name"] for row in told["participants"]]
    assert told["payoff"]["games"][names.index("main")][names.index("old")] > 0


ALONE = "without a second player to meet; add main"


@pytest.mark.parametrize(
    ("players", "told"),
    [
        (["main_exploiter"], f"'main_exploiter' is a main_exploiter {ALONE}"),
        (["league_exploiter"], f"'league_exploiter' is a league_exploiter {ALONE}"),
        ([{"type": "main", "against": []}], f"'main' is a main {ALONE}"),
        ([], "nobody learns; add main"),
        (["historical"], "nobody learns"),
        (["main", {"type": "league_exploiter", "against": ["mian"]}],
         r"'league_exploiter' meets 'mian' \(against\), who is nobody; expected main, league_ex"),
        ([{"type": "main", "name": "a"}, {"type": "main", "name": "a"}], "players are named 'a'"),
        ([{"type": "main", "name": "a/b"}], "name 'a/b': expected letters"),
        (["main", {"type": "historical", "run": "nowhere"}], r"'historical' \(run=nowhere\)"),
        (["main", {"type": "naive_self_play", "against": ["main"]}],
         "'naive_self_play' meets itself alone; leave out its 'against'"),
    ],
)  # fmt: skip
def test_players_without_anybody_to_meet_are_refused(
    players: Any, told: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=rf"pipeline\.players: .*{told}"):
        trained(tmp_path / "run", 32, players=players)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("role", ["main_exploiter", "naive_self_play"])
def test_a_weighting_without_effect_is_refused(role: str, tmp_path: Path) -> None:
    players = ["main", {"type": role, "weighting": "uniform"}]
    with pytest.raises(ConfigError, match=r"pipeline\.players\[1\]\.weighting: has no effect"):
        trained(tmp_path / "run", 32, players=players)
    assert not (tmp_path / "run").exists()


def test_more_opponents_than_environments_are_refused(tmp_path: Path) -> None:
    cfg = config()
    cfg["pipeline"]["opponents"] = 99
    with pytest.raises(ConfigError, match=r"pipeline\.opponents: each needs .* at most \d, as env"):
        launch(cfg, exp_name=str(tmp_path / "run"), max_env_step=32)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("env", "told"),
    [
        ({"env_wrapper": ["one_side", "flat_obs"]}, "expected one_side as the last wrapper"),
        ({"type": "cartpole"}, "one_side: expected a game of several agents"),
        ({"type": "two_step_game"}, "rewards all agents together"),
        ({"type": "kuhn_poker", "env_wrapper": [{"type": "one_side", "seat": 1}]},
         r"env_wrapper\[0\]\.seat: players of a league"),
        ({"env_wrapper": [{"type": "one_side", "sides": [["agent_0"], ["agent_2"]]}]},
         r"one_side\.sides: unknown agent 'agent_2'; expected agent_0, agent_1"),
    ],
)  # fmt: skip
def test_games_without_sides_are_refused(env: Any, told: str, tmp_path: Path) -> None:
    cfg = config()
    if "type" in env:
        del cfg["env"]["payoff"]
    cfg["env"].update(env)
    with pytest.raises(ConfigError, match=told):
        launch(cfg, exp_name=str(tmp_path / "run"), max_env_step=32)
    assert not (tmp_path / "run").exists()


def test_a_league_of_whole_teams_is_refused(tmp_path: Path) -> None:
    cfg = config(policy="ippo")
    cfg["env"]["env_wrapper"], cfg["policy"]["model"] = [], {}
    with pytest.raises(ConfigError, match=r"env\.env_wrapper: a league plays the sides of a"):
        launch(cfg, exp_name=str(tmp_path / "run"), max_env_step=32)


def test_a_reward_model_is_refused(tmp_path: Path) -> None:
    cfg = config()
    cfg["policy"]["reward_model"] = "rnd"
    with pytest.raises(ConfigError, match=r"policy\.reward_model: a league has none"):
        launch(cfg, exp_name=str(tmp_path / "run"), max_env_step=32)


def test_a_policy_of_another_game_or_network_is_refused(whole: Path, tmp_path: Path) -> None:
    players = ["main", {"type": "historical", "run": str(whole)}]
    with pytest.raises(ConfigError, match=r"env\.type: a battle is of one game, but this league"):
        trained(tmp_path / "run", 32, players=players, type="tictactoe")
    with pytest.raises(ConfigError, match="policy 'dqn' does not have the network"):
        trained(tmp_path / "run", 32, players=players, policy="ppo")
    assert not (tmp_path / "run").exists()


def test_a_network_from_outside_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a network for each player"):
        launch(
            config(), exp_name=str(tmp_path / "run"), max_env_step=32, model=torch.nn.Linear(1, 5)
        )
