"""Small games: rules, optima, and the form of what agents see."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

from dicore.config import compile_config
from dicore.config.compiler import compile_section
from dicore.errors import ConfigError, EnvError
from dicore.interfaces.env import EnvSpec
from dicore.testing.env import failures_of
from dicore_agents import KuhnPoker, MatrixGame, TicTacToe, TwoStepGame
from dicore_plugins.env_wrappers import Versus
from dicore_registry import default
from tests.agents.envs.managers import same_in

GAMES = {
    "matrix_game": ((2, 1), 3, (), (1,)),
    "two_step_game": ((2, 3), 2, (), (3,)),
    "tictactoe": ((2, 19), 9, (2,), None),
    "kuhn_poker": ((2, 10), 2, (2,), None),
}
"""Observations, actions, rewards and state."""


def section(name: str, **options: Any) -> Any:
    given = {"type": name, "stop_value": 1.0, **options}
    return compile_section(default().resolve("env", name).target, given)


@pytest.mark.parametrize("name", GAMES)
def test_every_game_tells_its_form(name: str) -> None:
    obs, actions, reward, state = GAMES[name]
    spec = EnvSpec.of(compile_config({"env": name, "policy": "random"}).env.build(None))
    assert len(spec.agents) == 2
    seen: Any = spec.observation
    assert seen["obs"].shape == obs
    assert np.array_equal(spec.action.nvec, [actions, actions])  # type: ignore[attr-defined]
    assert spec.reward_shape == reward
    assert (None if spec.state is None else spec.state.shape) == state
    assert ("state" in seen.spaces) == (state is not None)


@pytest.mark.parametrize("manager", ["thread", "sync_subprocess", "async_subprocess"])
def test_managers_give_the_same_data(manager: str) -> None:
    assert same_in("kuhn_poker", (manager,))


@pytest.mark.parametrize("name", ["matrix_game", "two_step_game", "tictactoe"])
def test_every_game_is_the_same_in_threads(name: str) -> None:
    assert same_in(name, ("thread",))


def played(env: Any, *actions: Any, **options: Any) -> Any:
    env.reset(seed=0, **options)
    return [env.step(np.array(action)) for action in actions]


def test_the_matrix_games_have_the_payoffs_of_the_papers() -> None:
    climbing = [[11, -30, 0], [-30, 7, 6], [0, 0, 5]]
    penalty = [[-25, 0, 10], [0, 2, 0], [10, 0, -25]]
    for options, table, best in (
        ({}, climbing, 11.0),
        ({"game": "penalty", "penalty": -25.0}, penalty, 10.0),
        ({"payoff": [[1, 2], [3, 4]]}, [[1, 2], [3, 4]], 4.0),
    ):
        cfg = section("matrix_game", **options)
        env = cfg.build(None)
        found = [played(env, pair)[0][1] for pair in product(range(len(table)), repeat=2)]
        assert found == np.ravel(table).tolist()
        assert cfg.from_spec() == {"stop_value": best}


def test_a_table_of_pairs_pays_each_agent() -> None:
    env = MatrixGame([[[0, 0], [-1, 1]], [[1, -1], [0, 0]]])
    ((_, reward, terminated, truncated, _),) = played(env, [0, 1])
    assert reward.dtype == np.float32
    assert (reward.tolist(), terminated, truncated) == ([-1, 1], True, False)
    assert failures_of(lambda: MatrixGame([[[0, 0], [-1, 1]], [[1, -1], [0, 0]]])) == {}


@pytest.mark.parametrize("payoff", [[], [[1, 2]], [[1, 2], [3]], [["a"]], [[[1, 2, 3]]]], ids=str)
def test_what_is_no_table_is_told(payoff: Any) -> None:
    with pytest.raises(ConfigError, match=r"env\.payoff: a table of payoffs has n rows"):
        section("matrix_game", payoff=payoff).build(None)


def test_a_table_beside_a_game_is_told() -> None:
    with pytest.raises(ConfigError, match=r"env\.payoff: game='penalty' has a table"):
        section("matrix_game", game="penalty", payoff=[[1]]).build(None)


def test_the_two_step_game_pays_as_in_the_paper() -> None:
    env = TwoStepGame()
    for first, pair in product((0, 1), product((0, 1), repeat=2)):
        begun, ended = played(env, [first, 1], pair)
        assert begun[1:4] == (0.0, False, False)
        assert begun[0]["state"].tolist() == [0, 1 - first, first]
        assert begun[0]["obs"].tolist() == [[0, 1 - first, first]] * 2
        paid = 7 if first == 0 else [[0, 1], [1, 8]][pair[0]][pair[1]]
        assert ended[1:4] == (paid, True, False)


def test_three_in_a_row_win() -> None:
    *_, last = played(TicTacToe(), [0, 0], [0, 3], [1, 0], [0, 4], [2, 0])
    assert (last[1].tolist(), last[2]) == ([1, -1], True)


def test_who_sets_a_mark_on_another_loses() -> None:
    *_, last = played(TicTacToe(), [4, 0], [0, 4])
    assert (last[1].tolist(), last[2]) == ([1, -1], True)


def test_what_each_side_sees() -> None:
    env = TicTacToe()
    begun, _ = env.reset(seed=0)
    assert begun["action_mask"].tolist() == [[1] * 9, [1] + [0] * 8]
    (first,) = played(env, [4, 8])
    own, other, turn = np.split(first[0]["obs"], [9, 18], 1)
    assert np.flatnonzero(own[0]).tolist() == np.flatnonzero(other[1]).tolist() == [4]
    assert not own[1].any()
    assert turn.tolist() == [[0], [1]]
    assert first[0]["action_mask"][1].tolist() == [1, 1, 1, 1, 0, 1, 1, 1, 1]
    assert first[0]["action_mask"][0].tolist() == [1] + [0] * 8
    assert env.render() == "...\n.x.\n..."


def test_perfect_players_draw_and_lose_to_nobody() -> None:
    env = TicTacToe()
    env.reset(seed=0)
    terminated, rng = False, np.random.default_rng(0)
    while not terminated:
        _, reward, terminated, *_ = env.step(np.repeat(env.scripted_action(env.to_play), 2))
    assert reward.tolist() == [0, 0]
    for game in range(30):
        seen, _ = env.reset(seed=0)
        terminated, side = False, game % 2
        while not terminated:
            legal = np.flatnonzero(seen["action_mask"][env.to_play])
            own = env.to_play == side
            cell = env.scripted_action(side) if own else rng.choice(legal)
            seen, reward, terminated, *_ = env.step(np.repeat(cell, 2))
        assert reward[side] >= 0


def test_one_side_of_a_game_of_turns() -> None:
    env = Versus(TicTacToe(), "scripted", 1)
    assert EnvSpec.of(env).agents == ()
    obs, _ = env.reset(seed=0)
    assert obs["obs"][9:18].sum() == 1
    _, reward, terminated, *_ = env.step(1)
    assert not terminated
    assert reward == 0
    assert failures_of(lambda: Versus(TicTacToe())) == {}


def rational(env: KuhnPoker) -> float:
    """Expects what agent 0 wins with the strategy of Kuhn (1950), over all deals and chances."""
    bluff = 1 / 3  # of the jack; a king is bet three times as often
    chance = {
        ("", 0): bluff, ("", 1): 0.0, ("", 2): 3 * bluff,
        ("pb", 0): 0.0, ("pb", 1): bluff + 1 / 3, ("pb", 2): 1.0,
        ("p", 0): 1 / 3, ("p", 1): 0.0, ("p", 2): 1.0,
        ("b", 0): 0.0, ("b", 1): 1 / 3, ("b", 2): 1.0,
    }  # fmt: skip

    def value(cards: tuple[int, ...], moves: str) -> float:
        actions = [["pb".index(move)] * 2 for move in moves]
        env.reset(options={"cards": cards})
        for action in actions:
            _, reward, over, *_ = env.step(np.array(action))
            if over:
                return float(reward[0])
        bet = chance[moves, cards[env.to_play]]
        return (1 - bet) * value(cards, moves + "p") + bet * value(cards, moves + "b")

    deals = [*permutations(range(3), 2)]
    return sum(value(cards, "") for cards in deals) / len(deals)


def test_kuhn_poker_has_its_value() -> None:
    assert rational(KuhnPoker()) == pytest.approx(-1 / 18)


def test_a_player_does_not_see_the_other_card() -> None:
    env = KuhnPoker()
    seen, _ = env.reset(options={"cards": (2, 0)})
    assert seen["obs"][:, :3].tolist() == [[0, 0, 1], [1, 0, 0]]
    assert seen["obs"][:, 9].tolist() == [1, 0]
    assert seen["action_mask"].tolist() == [[1, 1], [1, 0]]
    first, last = played(env, [1, 0], [1, 0], options={"cards": (2, 0)})
    assert first[0]["obs"][0, 3:9].tolist() == [0, 1, 0, 0, 0, 0]
    assert (last[1].tolist(), last[2]) == ([1, -1], True)


def test_cards_that_do_not_exist_are_told() -> None:
    with pytest.raises(EnvError, match="expected two of 0, 1, 2"):
        KuhnPoker().reset(options={"cards": (1, 1)})


def test_a_bad_table_is_told_when_a_config_is_read() -> None:
    with pytest.raises(ConfigError, match=r"env\.payoff: a table of payoffs"):
        compile_config({"env": {"type": "matrix_game", "payoff": [[1, 2]]}, "policy": "random"})
