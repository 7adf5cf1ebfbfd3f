"""AlphaZero: results of games for who moved, a search with the rules, whole runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, NonFiniteError
from dicore.run.launch import launch
from dicore.run.log import read_metrics
from dicore.run.random import seed_everything
from dicore_plugins.policies import create_policy
from dicore_worlds.games.board_game import BoardGame
from dicore_worlds.games.line_game import GAMES
from dicore_worlds.planning.config import PUCTConfig
from dicore_worlds.planning.puct import PUCT
from dicore_worlds.planning.rules import RulesModel
from dicore_worlds.policies.alphazero import AlphaZeroPolicy, results
from tests.plugins.policies.test_value_family import resumes_exactly


def made(game: str = "tictactoe", **options: object) -> AlphaZeroPolicy:
    env = BoardGame(GAMES[game])
    seed_everything(0)
    policy = create_policy(
        {"type": "alphazero", "model": {"units": 16}, **options},
        observation_space=env.observation_space,
        action_space=env.action_space,
    )
    assert isinstance(policy, AlphaZeroPolicy)
    return policy


def seen(game: str, *actions: int) -> EnvBatch:
    env = BoardGame(GAMES[game])
    obs, _ = env.reset(seed=0)
    for action in actions:
        obs, *_ = env.step(np.int64(action))
    return EnvBatch(np.arange(1), {key: np.asarray(each)[None] for key, each in obs.items()})


def test_results_change_sides_with_who_moves() -> None:
    """A won game of five moves by turns; one against an opponent; one that the rows cut off."""
    reward = np.zeros((5, 3), np.float32)
    reward[4, 0], reward[2, 1] = 1, -1
    player = np.array([[0, 1, 0], [1, 1, 1], [0, 1, 0], [1, 0, 1], [0, 1, 0]])
    end = np.zeros((5, 3), bool)
    end[4, 0] = end[2, 1] = True
    found = results(reward, player, end)
    assert found[:, 0].tolist() == [1, -1, 1, -1, 1]
    assert found[:, 1].tolist() == [-1, -1, -1, 0, 0]
    assert found[:, 2].tolist() == [0] * 5


def untrained(obs: torch.Tensor) -> dict[str, torch.Tensor]:
    actions = 9 if obs.shape[-1] == 3 else 7
    return {"logit": torch.zeros(len(obs), actions), "value": torch.zeros(len(obs))}


@pytest.mark.parametrize(
    ("game", "moves", "best"),
    [
        ("tictactoe", (0, 3, 1, 4), 2),  # wins
        ("tictactoe", (0, 3, 1), 2),  # blocks
        ("connect_four", (3, 2, 3, 2, 3, 2), 3),
        ("connect_four", (3, 2, 3, 2, 3), 3),
    ],
)
def test_a_search_with_the_rules_wins_and_blocks(
    game: str, moves: tuple[int, ...], best: int
) -> None:
    """The network knows nothing: the rules alone tell."""
    rules = GAMES[game]
    state = rules.initial(1)
    for move in moves:
        state = rules.step(state, np.array([move])).state
    model = RulesModel(rules, untrained)
    plan = PUCT(PUCTConfig(simulations=100)).plan(
        model, model.root(state), np.random.default_rng(0), explore=False
    )
    assert plan.action[0] == best
    assert plan.policy[0][~rules.legal(state)[0]].sum() == 0


def test_it_learns_what_the_search_preferred_and_who_won() -> None:
    policy = made(learn={"learning_rate": 0.01, "symmetries": False})
    board = seen("tictactoe", 0, 3).value["obs"]
    wanted = np.zeros((1, 9), np.float32)
    wanted[0, 1] = 1
    batch = Batch({"obs": board, "search_policy": wanted, "result": np.ones(1, np.float32)}, 1)
    first = policy.learn_mode.forward(batch)
    for _ in range(60):
        last = policy.learn_mode.forward(batch)
    assert first["policy_loss"] == pytest.approx(np.log(9), abs=0.2)
    assert first["value_loss"] == pytest.approx(1, abs=0.2)
    assert last["policy_loss"] < 0.1
    assert last["value_loss"] < 0.05


def test_what_is_learned_of_a_board_is_known_of_its_mirror() -> None:
    """A stone in a corner: only with symmetries its answer is found in the other corners."""
    corners = (0, 2, 6, 8)
    for symmetries in (True, False):
        policy = made(learn={"learning_rate": 0.01, "symmetries": symmetries})
        wanted = np.zeros((16, 9), np.float32)
        wanted[:, 4] = 0.5
        wanted[:, 8] = 0.5  # the opposite corner
        board = np.repeat(seen("tictactoe", 0).value["obs"], 16, 0)
        one = np.ones(16, np.float32)
        batch = Batch({"obs": board, "search_policy": wanted, "result": one}, 16)
        for _ in range(80):
            policy.learn_mode.forward(batch)
        model = policy.get_attribute("model")
        known = []
        for corner in corners:
            logit = model(torch.from_numpy(seen("tictactoe", corner).value["obs"]))["logit"]
            known.append(logit.softmax(-1)[0, 8 - corner].item() > 0.3)
        assert known == ([True] * 4 if symmetries else [True, False, False, False])


def test_moves_that_were_not_searched_teach_values_alone() -> None:
    policy = made()
    board = seen("tictactoe").value["obs"]
    unknown = np.full((1, 9), np.nan, np.float32)
    batch = Batch({"obs": board, "search_policy": unknown, "result": np.ones(1, np.float32)}, 1)
    found = policy.learn_mode.forward(batch)
    assert found["policy_loss"] == 0
    assert found["total_loss"] == found["value_loss"] > 0


def test_after_the_drawn_moves_the_best_is_made() -> None:
    """Collected moves differ at first; later equal boards have the move of most visits."""
    policy = made(collect={"drawn_moves": 2})
    boards = {moves: EnvBatch(np.arange(40), {
        key: np.repeat(each, 40, 0) for key, each in seen("tictactoe", *range(moves)).value.items()
    }) for moves in (1, 2)}  # fmt: skip
    drawn = policy.collect_mode.forward(boards[1]).value
    assert len(set(drawn["action"].tolist())) > 3
    best = policy.collect_mode.forward(boards[2]).value
    assert (best["action"] == best["search_policy"].argmax(1)).all()


def test_a_network_of_nan_never_acts() -> None:
    policy = made()
    with torch.no_grad():
        policy.get_attribute("model").value.bias.fill_(float("nan"))
    with pytest.raises(NonFiniteError):
        policy.eval_mode.forward(seen("tictactoe"))


def test_games_without_known_rules_are_refused() -> None:
    import gymnasium

    cartpole = gymnasium.make("CartPole-v1")
    with pytest.raises(ConfigError, match="'obs' and 'player'"):
        create_policy(
            {"type": "alphazero"},
            observation_space=cartpole.observation_space,
            action_space=cartpole.action_space,
        )
    env = BoardGame(GAMES["tictactoe"])
    with pytest.raises(ConfigError, match="knows no rules"):
        create_policy(
            {"type": "alphazero"},
            observation_space=env.observation_space,
            action_space=gymnasium.spaces.Discrete(8),
        )


def test_options_that_would_have_no_effect_are_refused() -> None:
    with pytest.raises(ConfigError, match="ignore_done"):
        made(learn={"ignore_done": True})


@pytest.mark.parametrize(
    ("buffer", "problem"),
    [
        ({"replay_buffer_size": 127}, "batch_size: must be <= 127"),
        ({"type": "sequence", "unroll_len": 3}, "must not make sequences"),
    ],
)
def test_buffers_that_it_cannot_learn_from_are_refused(
    buffer: dict[str, object], problem: str
) -> None:
    with pytest.raises(ConfigError, match=problem):
        made(other={"replay_buffer": buffer})


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    """It is stopped amid the games of three environments."""
    small = (
        *("policy.model.units=8", "policy.planner.simulations=4", "policy.learn.batch_size=8"),
        *("policy.learn.update_per_collect=2", "policy.collect.n_sample=20"),
        *("env.collector_env_num=3", "env.n_evaluator_episode=4"),
    )
    resumes_exactly(tmp_path, "board_game", "alphazero", (120, 240), *small)


def test_the_preset_of_connect_four_plays_it(tmp_path: Path) -> None:
    small = {
        "env.collector_env_num": 2, "env.evaluator_env_num": 2, "env.n_evaluator_episode": 2,
        "env.depth": 1, "policy.planner.simulations": 2, "policy.collect.n_sample": 32,
        "policy.learn.update_per_collect": 2, "policy.learn.batch_size": 16,
    }  # fmt: skip
    words = [*(f"{key}={value}" for key, value in small.items()), "pipeline.logger=[]"]
    outcome = launch(
        "connect_four_alphazero", seed=0, exp_name=str(tmp_path / "run"), max_env_step=240,
        overrides=words,
    )  # fmt: skip
    result = outcome.run.result
    assert result.train_iter >= 2
    assert result.best_return in (-1.0, -0.5, 0.0, 0.5, 1.0)
    rows = read_metrics(tmp_path / "run/log/metrics.jsonl")
    lengths = [r["evaluator/avg_envstep_per_episode"] for r in rows if "evaluator/return_mean" in r]
    assert all(3 <= each <= 21 for each in lengths), "moves of one side of at most 42"
