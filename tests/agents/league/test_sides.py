"""Sides of a game, and one of them as an environment, single and in a manager."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete

from dicore.data import EnvBatch
from dicore.errors import ConfigError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.testing.env import failures_of
from dicore_agents import (
    KuhnPoker,
    MatrixGame,
    OneSide,
    RandomOpponent,
    SharedOut,
    SideManager,
    Sides,
    TicTacToe,
    TwoStepGame,
)
from dicore_plugins.env_managers import BaseEnvManager
from tests.agents.league.games import RPS5, InTurns, TwoOnTwo

TEAMS = [["a", "b"], ["c", "d"]]


def test_a_side_of_one_agent_is_an_environment_of_one() -> None:
    spec = Sides(EnvSpec.of(TicTacToe())).spec
    assert spec.observation == Dict(obs=Box(0, 1, (19,)), action_mask=MultiBinary(9))
    assert (spec.action, spec.agents, spec.reward_shape) == (Discrete(9), (), ())
    assert Sides(EnvSpec.of(MatrixGame(RPS5))).spec.observation == Box(0, 1, (1,))


def test_a_side_of_several_agents_is_a_team() -> None:
    sides = Sides(EnvSpec.of(TwoOnTwo()), TEAMS)
    parts: Any = sides.spec.observation
    assert {key: part.shape for key, part in parts.items()} == {
        "obs": (2, 3), "alive": (2,), "action_mask": (2, 3), "state": (2,),
    }  # fmt: skip
    assert sides.spec.action == MultiDiscrete([3, 3])
    assert (len(sides.spec.agents), sides.spec.reward_shape) == (2, (2,))
    env = OneSide(TwoOnTwo(), TEAMS, 1)
    obs, _ = env.reset(seed=0)
    assert obs["obs"][:, 0].tolist() == [2, 3]
    assert failures_of(lambda: OneSide(TwoOnTwo(), TEAMS)) == {}


@pytest.mark.parametrize("dead", [(), (1,), (0, 1)])
def test_who_waits_has_no_choice_nor_has_a_side_that_is_dead(dead: tuple[int, ...]) -> None:
    sides = Sides(EnvSpec.of(TwoOnTwo()), TEAMS)
    obs = {key: leaf[None] for key, leaf in TwoOnTwo(dead)._seen().items()}
    assert [bool(sides.acts(obs, np.array([side]))[0]) for side in (0, 1)] == [dead != (0, 1), True]
    game = TicTacToe()
    seen = {key: leaf[None] for key, leaf in game.reset(seed=0)[0].items()}
    sides = Sides(EnvSpec.of(game))
    assert [bool(sides.acts(seen, np.array([side]))[0]) for side in (0, 1)] == [True, False]


@pytest.mark.parametrize(
    ("env", "groups", "told"),
    [
        (TwoOnTwo, [["a", "b"], ["c", "x"]], r"\.sides: unknown agent 'x'; expected a, b, c, d"),
        (TwoOnTwo, [["a", "b"], ["c"]], "agent 'd' is on no side"),
        (TwoOnTwo, [["a", "b"], ["b", "c", "d"]], "agent 'b' is named twice"),
        (TwoOnTwo, [["a", "b", "c"], ["d"]], r"unequal numbers of agents, \[3, 1\]"),
        (TwoOnTwo, [["a", "b", "c", "d"]], "has two sides or more, got 1"),
        (TwoStepGame, None, "rewards all agents together"),
    ],
)  # fmt: skip
def test_sides_that_do_not_fit_are_refused(env: Callable[[], Any], groups: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=rf"env.env_wrapper: one_side.*{told}"):
        OneSide(env(), groups)


def test_a_seat_or_a_script_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"one_side\.seat: got 2; there are 2 sides"):
        OneSide(TicTacToe(), seat=2)
    with pytest.raises(ConfigError, match=r"one_side\.opponent: the environment has no scripted"):
        OneSide(KuhnPoker(), opponent="scripted")


def test_the_scripted_opponent_plays_as_the_environment_says() -> None:
    env = OneSide(TicTacToe(), seat=0, opponent="scripted")
    returns = []
    for seed in range(20):
        obs, _ = env.reset(seed=seed)
        over, total = False, 0.0
        rng = np.random.default_rng(seed)
        while not over:
            action = rng.choice(np.flatnonzero(obs["action_mask"]))
            obs, reward, terminated, truncated, _ = env.step(action)
            over, total = terminated or truncated, total + float(reward)
        returns.append(total)
    assert max(returns) <= 0
    assert min(returns) == -1


@pytest.mark.parametrize("sides", [None, [["b"], ["a"]]])
def test_the_agent_whose_turn_it_is_is_asked(sides: Any) -> None:
    game = InTurns()
    env = OneSide(game, sides, seat=0, opponent="scripted")
    env.reset(seed=0)
    while not env.step(1)[2]:
        pass
    assert game.asked
    assert all(agent == turn for agent, turn in game.asked)


@pytest.mark.parametrize("shared", [False, True])
def test_each_side_that_an_opponent_plays_has_a_number_of_its_own(shared: bool) -> None:
    class Notes:
        def __init__(self) -> None:
            self.asked: set[tuple[int, int]] = set()
            self.begun: list[int] = []

        def act(self, env_id: Any, seen: Any) -> Any:
            self.asked |= {
                *zip(env_id.tolist(), seen["obs"][:, 0].astype(int).tolist(), strict=True)
            }
            return np.zeros(len(env_id), np.int64)

        def reset(self, env_ids: list[int]) -> None:
            self.begun += env_ids

    notes = [Notes(), Notes()]
    envs = BaseEnvManager([TwoOnTwo] * 2)
    sides = Sides(EnvSpec.of(envs))
    opponent: Any = SharedOut(notes, 3) if shared else notes[0]
    manager = SideManager(envs, sides, opponent, seat=0)
    manager.launch()
    for _ in range(3):
        manager.step(EnvBatch(np.arange(2), {"action": np.zeros(2, np.int64)}))
    numbers = [[(3 * env + agent - 1, agent) for agent in (1, 2, 3)] for env in (0, 1)]
    if shared:
        assert [sorted(each.asked) for each in notes] == numbers
        assert [{*each.begun} for each in notes] == [{0, 1, 2}, {3, 4, 5}]
    else:
        assert sorted(notes[0].asked) == [*numbers[0], *numbers[1]]
        assert notes[0].begun == [*range(6)] * 4
    manager.close()


def test_what_a_side_is_paid_before_its_first_choice_counts() -> None:
    env = OneSide(InTurns(), seat=1)
    for _ in range(2):
        env.reset(seed=0)
        assert [env.step(1)[1] for _ in range(2)] == [7, 1]
    envs = BaseEnvManager([InTurns] * 2)
    sides = Sides(EnvSpec.of(envs))
    manager = SideManager(envs, sides, Fixed(1), seat=1)
    manager.launch()
    for rewards in ([7, 7], [1, 1], [7, 7]):
        answer = manager.step(EnvBatch(np.arange(2), {"action": np.ones(2, np.int64)}))
        assert answer.value.reward.tolist() == rewards
        returns = [info.get("eval_episode_return") for info in answer.value.info]
        assert returns == ([8, 8] if rewards[0] == 1 else [None, None])
    manager.close()


class Fixed:
    """Always chooses one action."""

    def __init__(self, action: int) -> None:
        self.action, self.begun = action, 0

    def act(self, env_id: Any, seen: Any) -> Any:
        return np.full(len(env_id), self.action)

    def reset(self, env_ids: list[int]) -> None:
        self.begun += len(env_ids)


def test_a_manager_counts_who_won() -> None:
    envs = BaseEnvManager([lambda: MatrixGame(RPS5)] * 3)
    manager = SideManager(envs, Sides(EnvSpec.of(envs)), Fixed(0), seat=1)
    manager.launch()
    for action, margin in ((1, 2.0), (0, 0.0), (4, -2.0)):
        manager.margins.clear()
        answer = manager.step(EnvBatch(np.arange(3), {"action": np.full(3, action)}))
        assert manager.margins == [margin] * 3
        assert answer.value.reward.tolist() == [margin / 2] * 3
        assert [info["eval_episode_return"] for info in answer.value.info] == [margin / 2] * 3
    manager.close()


def test_opponents_act_until_it_is_the_sides_turn() -> None:
    envs = BaseEnvManager([TicTacToe] * 4)
    sides = Sides(EnvSpec.of(envs))
    manager = SideManager(envs, sides, RandomOpponent(sides.spec, np.random.default_rng(0)), seed=3)
    manager.seed(0)
    manager.launch()
    rng = np.random.default_rng(1)
    seats, lengths = set(), []
    for _ in range(60):
        ready = manager.ready_obs
        marks = ready.value["obs"][:, :18].sum(1)
        assert (marks % 2 == manager.seats[ready.env_id]).all()
        assert (ready.value["obs"][:, 18] == 1).all()
        actions = [rng.choice(np.flatnonzero(mask)) for mask in ready.value["action_mask"]]
        answer = manager.step(ready.with_value({"action": np.array(actions)}))
        for row in np.flatnonzero(answer.value.done):
            info = answer.value.info[row]
            seats.add(info["side"])
            lengths.append(info["episode_length"])
            assert info["eval_episode_return"] == answer.value.reward[row]
    assert seats == {0, 1}
    assert 2 <= min(lengths) <= max(lengths) <= 5
    assert len(manager.margins) == len(lengths)
    manager.close()


def test_a_manager_deals_the_same_games_again_from_a_state() -> None:
    def played(manager: SideManager, count: int) -> list[Any]:
        found = []
        for _ in range(count):
            ready = manager.ready_obs
            found.append([ready.value["obs"].tolist(), manager.seats.tolist()])
            manager.step(ready.with_value({"action": np.ones(len(ready), np.int64)}))
        return found

    def made() -> SideManager:
        envs = BaseEnvManager([KuhnPoker] * 2)
        manager = SideManager(envs, Sides(EnvSpec.of(envs)), Fixed(1), seed=1)
        manager.seed(5)
        manager.launch()
        return manager

    first, second = made(), made()
    played(first, 7)
    second.load_state_dict(first.state_dict())
    first.reset()
    second.reset()
    assert played(first, 9) == played(second, 9)


def test_environments_that_are_not_stepped_together_are_refused() -> None:
    envs = SimpleNamespace(capabilities=frozenset(), env_num=2)
    sides = Sides(EnvSpec.of(TicTacToe()))
    with pytest.raises(UsageError, match="does not step environments together"):
        SideManager(cast("Any", envs), sides, Fixed(0))


def test_several_opponents_share_the_environments_out() -> None:
    envs = BaseEnvManager([lambda: MatrixGame(RPS5)] * 4)
    pair = Fixed(0), Fixed(1)
    manager = SideManager(envs, Sides(EnvSpec.of(envs)), SharedOut(pair), seat=0)
    manager.launch()
    assert [each.begun for each in pair] == [2, 2]
    manager.step(EnvBatch(np.arange(4), {"action": np.full(4, 1)}))
    assert dict(zip(manager.ended, manager.margins, strict=True)) == {0: 2, 1: 0, 2: 2, 3: 0}
    manager.close()
