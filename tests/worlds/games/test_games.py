"""Rules as array code against boards of plain lists, and what plays by them."""

from __future__ import annotations

import numpy as np
import pytest

from dicore.errors import ConfigError, UsageError
from dicore_worlds.games.board_game import BoardGame
from dicore_worlds.games.interface import SupportsRules
from dicore_worlds.games.line_game import GAMES, LineGame, rules_of
from dicore_worlds.games.minimax import minimax


def has_line(board: list[list[int]], mark: int, length: int) -> bool:
    height, width = len(board), len(board[0])
    for row in range(height):
        for column in range(width):
            for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
                cells = [(row + down * k, column + right * k) for k in range(length)]
                inside = all(0 <= r < height and 0 <= c < width for r, c in cells)
                if inside and all(board[r][c] == mark for r, c in cells):
                    return True
    return False


@pytest.mark.parametrize(
    ("rules", "length", "drops"),
    [
        (GAMES["tictactoe"], 3, False),
        (GAMES["connect_four"], 4, True),
        (LineGame(5, 4, 3, drops=True), 3, True),
    ],
)
def test_rules_are_those_of_a_board_of_lists(
    rules: SupportsRules, length: int, drops: bool
) -> None:
    """Random games are played on both; the array has 30 games that go on side by side."""
    rng, count = np.random.default_rng(0), 30
    _, height, width = rules.obs_shape
    boards = [[[0] * width for _ in range(height)] for _ in range(count)]
    state, over, mark = rules.initial(count), np.zeros(count, bool), 1
    won = 0
    for moves in range(height * width):
        legal = rules.legal(state)
        for game in np.flatnonzero(~over):
            cells = [[not mark for mark in row] for row in boards[game]]
            wanted = cells[0] if drops else [cell for row in cells for cell in row]
            assert legal[game].tolist() == wanted
        assert (rules.moves(state)[~over] == moves).all()
        action = np.array([rng.choice(np.flatnonzero(row)) if row.any() else 0 for row in legal])
        moved = rules.step(state, action)
        for game in np.flatnonzero(~over):
            board, chosen = boards[game], int(action[game])
            row, column = divmod(chosen, width)
            if drops:
                column = chosen
                row = max(r for r in range(height) if not board[r][column])
            board[row][column] = mark
            line = has_line(board, mark, length)
            assert moved.reward[game] == line
            assert moved.over[game] == (line or moves + 1 == height * width)
            planes = rules.observe(moved.state)[game]
            assert planes[1].tolist() == (np.array(board) == mark).tolist()
            assert planes[0].tolist() == (np.array(board) == -mark).tolist()
            won += line
        np.testing.assert_array_equal(rules.restore(rules.observe(moved.state)), moved.state)
        state, over, mark = moved.state, over | moved.over, -mark
    assert over.all()
    assert won > count / 3


def test_rules_hold_the_protocol() -> None:
    assert all(isinstance(rules, SupportsRules) for rules in GAMES.values())
    assert rules_of((2, 6, 7), 7) is GAMES["connect_four"]
    assert rules_of((2, 6, 7), 8) is None


@pytest.mark.parametrize(("name", "count"), [("tictactoe", 8), ("connect_four", 2)])
def test_symmetric_games_have_symmetric_moves_and_results(name: str, count: int) -> None:
    """The same random game is played on all turned and mirrored boards at once."""
    rules, rng = GAMES[name], np.random.default_rng(0)
    numbers, moves = rules.symmetries()
    assert len(numbers) == len(moves) == len({tuple(each) for each in moves.tolist()}) == count
    state = rules.initial(count)
    for _ in range(5):
        legal = rules.legal(state)
        seen = rules.observe(state).reshape(count, -1)
        for each in range(count):
            assert (seen[each] == seen[0][numbers[each]]).all()
            assert (legal[each] == legal[0][moves[each]]).all()
        action = rng.choice(np.flatnonzero(legal[0]))
        moved = rules.step(state, np.array([np.flatnonzero(each == action)[0] for each in moves]))
        assert len({*moved.reward.tolist()}) == 1
        state = moved.state


def test_a_board_that_does_not_fit_64_bits_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs 72 bits"):
        LineGame(8, 8, 5, drops=False)


def played(rules: SupportsRules, *actions: int) -> np.ndarray:
    state = rules.initial(1)
    for action in actions:
        state = rules.step(state, np.array([action])).state
    return state


def test_minimax_knows_tictactoe() -> None:
    """Nobody wins from the empty board; a corner is answered in the centre alone."""
    rules = GAMES["tictactoe"]
    assert (minimax(rules, rules.initial(1), 9) == 0).all()
    answers = minimax(rules, played(rules, 0), 9)[0]
    assert np.flatnonzero(answers == 0).tolist() == [4]
    assert answers[0] == -np.inf
    fork = minimax(rules, played(rules, 0, 8, 2), 9)[0]  # must block between both corners
    assert fork.argmax() == 1
    assert fork[1] == pytest.approx(-(0.99**3))


def test_minimax_looks_no_further_than_its_depth() -> None:
    """Three in a column of connect four: winning needs one move, blocking a look at two."""
    rules = GAMES["connect_four"]
    state = played(rules, 3, 2, 3, 2, 3)
    assert (minimax(rules, state, 1) == 0).all()
    two = minimax(rules, state, 2)[0]
    assert two[3] == 0
    assert (two[[0, 1, 2, 4, 5, 6]] < -0.9).all()
    assert minimax(rules, played(rules, 3, 2, 3, 2, 3, 2), 1)[0].argmax() == 3
    assert minimax(rules, rules.initial(0), 3).shape == (0, 7)
    with pytest.raises(UsageError, match="depth must be >= 1"):
        minimax(rules, state, 0)


def test_a_game_with_itself_alternates_and_pays_who_moved() -> None:
    env = BoardGame(GAMES["tictactoe"])
    obs, _ = env.reset(seed=0)
    for number, action in enumerate([0, 3, 1, 4, 2]):
        assert obs["player"] == number % 2
        assert obs["action_mask"][action] == 1
        obs, reward, over, truncated, _ = env.step(np.int64(action))
        assert (reward, over, truncated) == (float(number == 4), number == 4, False)
    assert env.render() == "xxx\noo.\n..."


def test_an_illegal_move_loses() -> None:
    env = BoardGame(GAMES["tictactoe"], "random")
    env.reset(seed=0)
    obs, *_ = env.step(np.int64(0))
    mine = int(np.flatnonzero(obs["action_mask"] == 0)[0])
    _, reward, over, _, _ = env.step(np.int64(mine))
    assert (reward, over) == (-1.0, True)


def test_a_perfect_opponent_is_never_beaten_and_punishes() -> None:
    """Of 60 games of random moves it loses none; it begins about half of them."""
    env, rng = BoardGame(GAMES["tictactoe"], "minimax"), np.random.default_rng(0)
    rewards, begun = [], 0
    for game in range(60):
        obs, _ = env.reset(seed=game)
        begun, over = begun + int(obs["player"]), False
        side = obs["player"]
        while not over:
            action = rng.choice(np.flatnonzero(obs["action_mask"]))
            obs, reward, over, _, _ = env.step(action)
            assert over or obs["player"] == side
        rewards.append(reward)
    assert max(rewards) == 0
    assert np.mean(rewards) < -0.6
    assert 15 < begun < 45
