"""Games of OpenSpiel by name: their rules are those of our own games where both have one."""

from __future__ import annotations

import importlib.util
from itertools import product
from typing import Any

import numpy as np
import pytest

from dicore.config.compiler import compile_section
from dicore.errors import ConfigError, MissingDependencyError
from dicore.testing.env import failures_of
from dicore_agents import KuhnPoker, TicTacToe
from dicore_registry import default
from tests.agents.envs.managers import same_in

spiel: Any = pytest.importorskip("pyspiel")


def game(name: str, **options: Any) -> Any:
    given = {"type": "open_spiel", "env_id": name, **options}
    return compile_section(default().resolve("env", "open_spiel").target, given).build(None)


def replayed(env: Any, actions: list[int], **reset: Any) -> list[Any]:
    """Plays a game; returns rewards, ends and masks."""
    env.reset(**reset)
    found = []
    for action in actions:
        seen, reward, over, *_ = env.step(np.array([action, action]))
        found.append((reward.tolist(), over, None if over else seen["action_mask"].tolist()))
        if over:
            break
    return found


@pytest.mark.parametrize("seed", range(6))
def test_kuhn_poker_is_our_own(seed: int) -> None:
    theirs = game("kuhn_poker")
    for moves in product((0, 1), repeat=3):
        found = replayed(theirs, [*moves], seed=seed)
        cards = [int(each) for each in str(theirs.env._state).split()[:2]]
        own = replayed(KuhnPoker(), [*moves], options={"cards": cards})
        assert [each[:2] for each in own] == [each[:2] for each in found]
        assert [each[2] for each in own] == [each[2] for each in found]


def test_tictactoe_is_our_own() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        cells = rng.permutation(9).tolist()
        assert replayed(game("tic_tac_toe"), cells) == replayed(TicTacToe(), cells)


@pytest.mark.parametrize("name", ["leduc_poker", "goofspiel(num_cards=4)", "connect_four"])
def test_games_keep_the_contract(name: str) -> None:
    assert failures_of(lambda: game(name)) == {}


def test_players_of_a_simultaneous_game_act_at_once() -> None:
    env = game("matrix_rps")
    seen, _ = env.reset(seed=0)
    assert env.to_play is None
    assert seen["action_mask"].all()
    assert seen["obs"].shape == (2, 1), "no channel for turns"
    _, reward, over, *_ = env.step(np.array([0, 1]))
    assert (reward.tolist(), over) == ([-1, 1], True)


def test_an_action_that_is_not_legal_is_the_first_legal_one() -> None:
    env = game("tic_tac_toe")
    env.reset(seed=0)
    env.step(np.array([0, 0]))
    seen, *_ = env.step(np.array([0, 0]))
    assert seen["action_mask"][0].tolist() == [0, 0, 1, 1, 1, 1, 1, 1, 1]


def test_managers_give_the_same_data() -> None:
    assert same_in("open_spiel", ("thread", "sync_subprocess"), env_id="leduc_poker")


@pytest.mark.parametrize(
    ("name", "options", "text", "hint"),
    [
        ("kuhn_pokr", {}, "OpenSpiel has no game 'kuhn_pokr'", "did you mean 'kuhn_poker'"),
        ("mfg_crowd_modelling", {}, "is played by the mean of a population", "in turn or at once"),
        ("kuhn_poker", {"make_kwargs": {"cards": 4}}, r"env\.make_kwargs: .*cards", ""),
        ("kuhn_poker", {"state": True}, r"env\.state: .* gives no global state", "drop env.state"),
    ],
)  # fmt: skip
def test_mistakes_are_told(name: str, options: Any, text: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        game(name, **options)
    assert hint in str(caught.value.hint or "")


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingDependencyError, match="needs the package 'pyspiel'") as caught:
        game("kuhn_poker")
    assert caught.value.hint == "pip install 'dicore-agents[open-spiel]'"
