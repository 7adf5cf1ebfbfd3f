"""FEATURES A3-A5, A16, A19, A20; RELIABILITY B10: episodes as gymnasium's own wrappers see them."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit
from hypothesis import given, settings
from hypothesis import strategies as st

from dicore.errors import EnvError
from dicore.run.random import episode_seed
from dicore_plugins.env_managers.base.manager import BaseEnvManager

from .toy_envs import CountEnv, column, manager_of, rollout


def actions_for(space: Any, steps: int, seed: int) -> list[Any]:
    space.seed(seed)
    return [space.sample() for _ in range(steps)]


def by_hand(env: Any, actions: list[Any], env_id: int) -> tuple[list[Any], list[Any]]:
    """Plays with gymnasium's wrappers on; returns rows as of `row`, and what came before each."""
    episode, rows, before = 0, [], []
    obs, _ = env.reset(seed=episode_seed(7, "collector", env_id, 0))
    for action in actions:
        before.append(np.asarray(obs, np.float32))
        obs, reward, terminated, truncated, _ = env.step(action)
        rows.append((np.asarray(obs, np.float32), np.float32(reward), terminated, truncated))
        if terminated or truncated:
            episode += 1
            obs, _ = env.reset(seed=episode_seed(7, "collector", env_id, episode))
    env.close()
    return rows, before


@pytest.mark.parametrize(
    ("env_id", "limit", "steps", "ends"),
    [
        ("CartPole-v1", None, 300, "terminated"),
        ("CartPole-v1", 9, 120, "both"),
        ("MountainCar-v0", None, 650, "truncated"),
        ("Pendulum-v1", None, 450, "truncated"),
        ("Acrobot-v1", 40, 130, "truncated"),
    ],
)
def test_equals_gymnasiums_own_loop_bit_for_bit(
    env_id: str, limit: int | None, steps: int, ends: str
) -> None:
    def make() -> Any:
        return gymnasium.make(env_id, max_episode_steps=limit)

    acts = [actions_for(make().action_space, steps, seed) for seed in range(3)]
    wanted = [by_hand(make(), acts[i], i) for i in range(3)]
    manager = BaseEnvManager([make] * 3)
    manager.seed(7)
    manager.launch()
    seen = {"terminated": False, "truncated": False}
    for step in range(steps):
        ready = manager.ready_obs
        answer = manager.step({i: acts[i][step] for i in range(3)})
        for i in range(3):
            obs, reward, terminated, truncated = wanted[i][0][step]
            assert ready[i].tobytes() == wanted[i][1][step].tobytes()
            assert answer[i].obs.tobytes() == obs.tobytes()
            assert answer[i].reward == reward
            assert (answer[i].terminated, answer[i].truncated) == (terminated, truncated)
            assert answer[i].done == (terminated or truncated)
            seen["terminated"] |= terminated
            seen["truncated"] |= truncated
    assert seen == {"terminated": ends in ("terminated", "both"),
                    "truncated": ends in ("truncated", "both")}  # fmt: skip
    manager.close()


def test_a_state_that_ends_at_the_time_limit_is_both() -> None:
    manager = manager_of(TimeLimit(CountEnv(length=3), 3), CountEnv(length=3))
    *_, last = rollout(manager, 3)
    assert last[0][2:4] == (True, True)
    assert last[1][2:4] == (True, False)


def test_only_the_standard_wrappers_are_peeled() -> None:
    class Shift(gymnasium.ObservationWrapper[Any, Any, Any]):
        def observation(self, observation: Any) -> Any:
            return observation + np.float32(100)

    env = TimeLimit(Shift(TimeLimit(CountEnv(length=0), 4)), 3)
    manager = manager_of(env)
    found = rollout(manager, 6)
    assert [step[0][0][3] for step in found] == [101, 102, 103, 101, 102, 103]
    assert [step[0][3] for step in found] == [False, False, True] * 2


@pytest.mark.parametrize("limits", [(2, 5), (5, 2)])
def test_the_nearest_of_several_time_limits_counts(limits: tuple[int, int]) -> None:
    manager = manager_of(TimeLimit(TimeLimit(CountEnv(length=0), limits[0]), limits[1]))
    assert [step[0][3] for step in rollout(manager, 4)] == [False, True] * 2


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_time_limits_hold_when_envs_are_stepped_unevenly(data: st.DataObject) -> None:
    limits = data.draw(st.lists(st.integers(1, 6), min_size=2, max_size=4))
    lengths = data.draw(st.lists(st.integers(0, 6), min_size=4, max_size=4))
    envs = [CountEnv(i, length=lengths[i]) for i in range(len(limits))]
    manager = manager_of(*(TimeLimit(env, n) for env, n in zip(envs, limits, strict=True)))
    twins = [TimeLimit(CountEnv(i, length=lengths[i]), n) for i, n in enumerate(limits)]
    for twin in twins:
        twin.reset()
    every = st.sets(st.integers(0, len(limits) - 1), min_size=1)
    for ids in data.draw(st.lists(every, min_size=1, max_size=40)):
        answer = manager.step(dict.fromkeys(sorted(ids, reverse=True), 0))
        assert set(answer) == ids
        for i in ids:
            obs, _, terminated, truncated, _ = twins[i].step(0)
            assert answer[i].obs[3] == obs[3]
            assert (answer[i].terminated, answer[i].truncated) == (terminated, truncated)
            if terminated or truncated:
                assert answer[i].info["episode_length"] == obs[3]
                twins[i].reset()


def test_only_the_named_envs_move() -> None:
    envs = [CountEnv(i, length=4) for i in range(4)]
    manager = manager_of(*envs)
    answer = manager.step({3: 1, 1: 2})
    assert list(answer) == [3, 1], "in the order of the actions"
    assert [answer[i].obs[1] for i in (3, 1)] == [3, 1]
    assert [env.actions for env in envs] == [[], [2], [], [1]]
    assert column(manager, 3) == {0: 0, 1: 1, 2: 0, 3: 1}


def test_the_return_adds_up_when_envs_are_stepped_unevenly() -> None:
    manager = manager_of(CountEnv(0, length=4), CountEnv(1, length=3))
    told = {}
    for ids, action in (([0], 0), ([0, 1], 1), ([1], 2), ([0], 2), ([1, 0], 0)):
        answer = manager.step(dict.fromkeys(ids, action))
        told |= {i: answer[i].info["eval_episode_return"] for i in ids if answer[i].done}
    assert told == {0: 0 + 1 + 2 + 0 + 4 * 0.5, 1: 1 + 2 + 0 + 3 * 0.5}


@pytest.mark.parametrize("name", ["eval_episode_return", "final_eval_reward"])
def test_a_return_that_the_env_tells_itself_is_kept(name: str) -> None:
    class Tells(CountEnv):
        def step(self, action: Any) -> Any:
            *rest, terminated, truncated, _ = super().step(action)
            return *rest, terminated, truncated, {name: np.array([42.0])} if terminated else {}

    manager = manager_of(Tells(length=2))
    *_, last = rollout(manager, 2)
    assert last[0][4]["eval_episode_return"] == 42.0


def test_infos_arrive_and_are_not_written_into() -> None:
    kept: list[dict[str, Any]] = []

    class Tells(CountEnv):
        def step(self, action: Any) -> Any:
            *rest, _ = super().step(action)
            kept.append({"count": self.count})
            return *rest, kept[-1]

    manager = manager_of(Tells(length=2))
    found = rollout(manager, 3)
    assert [step[0][4]["count"] for step in found] == [1, 2, 1]
    assert kept == [{"count": 1}, {"count": 2}, {"count": 1}]


def test_an_info_that_is_no_dict_is_told() -> None:
    class Odd(CountEnv):
        def step(self, action: Any) -> Any:
            return *super().step(action)[:4], [self.tag]

    manager = manager_of(CountEnv(0), Odd(1))
    with pytest.raises(EnvError, match="env 1: info is a list, not a dict"):
        manager.step({0: 0, 1: 0})


def test_steps_marked_abnormal_by_the_env_are_marked_in_the_batch() -> None:
    class Marks(CountEnv):
        def step(self, action: Any) -> Any:
            *rest, _ = super().step(action)
            return *rest, {"abnormal": self.count == 2}

    manager = manager_of(CountEnv(0), Marks(1))
    flags = [manager.step({0: 0, 1: 0}).value.abnormal for _ in range(3)]
    assert flags[0] is None
    assert flags[1].tolist() == [False, True]
    assert flags[2] is None


def test_reset_parameters_are_remembered() -> None:
    envs = [CountEnv(0, length=2), CountEnv(1, length=2)]
    manager = manager_of(*envs)
    manager.reset({1: {"level": 3}})
    rollout(manager, 4)
    assert envs[0].levels == [0, 0, 0]
    assert envs[1].levels == [0, 3, 3, 3]
    manager.reset({1: None})
    assert envs[1].levels[-1] == 3, "None remembers nothing new"
    manager.reset({1: {}})
    rollout(manager, 2)
    assert envs[1].levels[-2:] == [0, 0]
    manager.close()
    manager.launch({0: {"level": 5}})
    assert column(manager, 2) == {0: 5, 1: 0}


def test_reset_parameters_of_the_caller_are_copied() -> None:
    env = CountEnv(0, length=1)
    manager = manager_of(env)
    mine = {"level": 3}
    manager.reset({0: mine})
    mine["level"] = 9
    rollout(manager, 1)
    assert env.levels == [0, 3, 3]


@pytest.mark.parametrize("ids", [[2, 0], (2, 0), np.array([2, 0]), {2: None, 0: None}])
def test_reset_of_some_begins_only_theirs(ids: Any) -> None:
    manager = manager_of(*(CountEnv(i) for i in range(3)))
    rollout(manager, 2)
    manager.reset(ids)
    assert column(manager, 3) == {0: 0, 1: 2, 2: 0}
    found = rollout(manager, 5)
    assert [step[1][2] for step in found] == [False, False, True, False, False]
    assert [step[0][2] for step in found] == [False] * 4 + [True]


def test_reset_of_none_of_them_changes_nothing() -> None:
    manager = manager_of(CountEnv(0))
    rollout(manager, 1)
    manager.reset([])
    assert column(manager, 3) == {0: 1}
