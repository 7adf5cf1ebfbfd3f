"""FEATURES A7, A21: which seed an episode gets; and what a saved state brings back."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from dicore.errors import CheckpointCorruptError, UsageError
from dicore.run.random import episode_seed, seed_everything
from dicore_plugins.env_managers.base.manager import BaseEnvManager
from dicore_plugins.env_managers.episodes import EpisodeSeeds

from .toy_envs import CountEnv, Tired, column, manager_of, rollout


def seeds_of(episodes: int = 4, num: int = 2, **how: Any) -> list[list[int | None]]:
    """Returns the seeds with which each environment was reset."""
    envs = [CountEnv(i, length=1) for i in range(num)]
    manager = manager_of(*envs, launch=False)
    if how:
        manager.seed(**how)
    manager.launch()
    rollout(manager, episodes - 1)
    return [env.seeds for env in envs]


def test_an_int_gives_the_seeds_of_the_run() -> None:
    for role in ("collector", "evaluator"):
        wanted = [[episode_seed(5, role, i, k) for k in range(4)] for i in range(2)]
        assert seeds_of(seed=5, role=role) == wanted
    assert seeds_of(seed=np.int64(5)) == seeds_of(seed=5)


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_static_seeds_are_an_option(dynamic: bool | None) -> None:
    env = CountEnv(0, length=1)
    manager = manager_of(env, launch=False, dynamic_seed=False)
    manager.seed(5, dynamic)
    manager.launch()
    rollout(manager, 3)
    assert len(set(env.seeds)) == (4 if dynamic else 1)


def test_runs_and_roles_share_no_episode() -> None:
    plays = [
        seeds_of(30, 4, seed=seed, role=role)
        for seed in (0, 1)
        for role in ("collector", "evaluator")
    ]
    everything = [seed for play in plays for env in play for seed in env]
    assert len(set(everything)) == len(everything) == 4 * 4 * 30


def test_a_list_is_literal_for_the_next_episode() -> None:
    found = seeds_of(seed=[3, 4])
    assert [each[0] for each in found] == [3, 4]
    assert len({seed for each in found for seed in each}) == 8, "the later ones are drawn from it"
    assert seeds_of(seed=(3, 4)) == seeds_of(seed=np.array([3, 4])) == found


def test_two_envs_of_one_seed_give_the_same_sequence() -> None:
    first, second = seeds_of(seed=[3, 3])
    assert first == second
    assert len(set(first)) == 4
    assert seeds_of(seed=[9, 3])[1] == first


def test_a_dict_is_literal_for_those_it_names() -> None:
    envs = [CountEnv(i, length=1) for i in range(3)]
    manager = manager_of(*envs, seed=8)
    manager.seed({1: 77})
    rollout(manager, 2)
    assert envs[0].seeds == [episode_seed(8, "collector", 0, k) for k in range(3)]
    assert envs[1].seeds[:2] == [episode_seed(8, "collector", 1, 0), 77]
    assert envs[1].seeds[2] not in (77, episode_seed(8, "collector", 1, 2))


@pytest.mark.parametrize(
    ("seed", "wanted"), [(9, [9, 9]), ([3, 4], [3, 4]), ({0: 3, 1: 4}, [3, 4])]
)
def test_static_seeds_repeat(seed: Any, wanted: list[int]) -> None:
    assert seeds_of(seed=seed, dynamic_seed=False) == [[each] * 4 for each in wanted]


@pytest.mark.parametrize("seed", [[1], [1, 2, 3], [], {2: 1}, {-1: 1}])
def test_wrong_lengths_and_ids_are_refused(seed: Any) -> None:
    manager = manager_of(CountEnv(0), CountEnv(1), seed=8)
    with pytest.raises(UsageError, match=r"2 environments|there are 2"):
        manager.seed(seed)


@pytest.mark.parametrize("seed", ["12", 1.5, None, [1.5, 2], {0: "1"}])
def test_what_is_no_seed_is_refused(seed: Any) -> None:
    with pytest.raises(UsageError, match="is not a seed"):
        manager_of(CountEnv(0), CountEnv(1)).seed(seed)


def test_a_refused_seed_changes_nothing() -> None:
    env = CountEnv(0, length=1)
    manager = manager_of(env, launch=False)
    manager.seed(8, role="evaluator")
    for bad in ([1, 2], {3: 1}):
        with pytest.raises(UsageError):
            manager.seed(bad, False, role="collector")
    manager.launch()
    rollout(manager, 1)
    assert env.seeds == [episode_seed(8, "evaluator", 0, k) for k in range(2)]


def test_without_a_seed_the_run_decides() -> None:
    def first(ambient: int) -> int | None:
        env = CountEnv(0)
        seed_everything(ambient)
        BaseEnvManager([lambda: env]).launch()
        return env.seeds[0]

    assert first(11) == episode_seed(11, "collector", 0, 0)
    assert first(12) != first(11)


def test_seeding_again_begins_the_sequence_again() -> None:
    env = CountEnv(0, length=1)
    manager = manager_of(env, seed=3)
    rollout(manager, 2)
    manager.seed(3)
    manager.reset()
    assert env.seeds[-1] == env.seeds[0]
    rollout(manager, 1)
    manager.restart_episodes()
    manager.reset()
    rollout(manager, 1)
    assert env.seeds[-2:] == env.seeds[:2]


def test_literal_seeds_begin_again_too() -> None:
    seeds = EpisodeSeeds(1)
    seeds.set(0, None, "collector")
    seeds.next(0)
    seeds.set([42], None, "collector")
    before = [seeds.next(0) for _ in range(3)]
    seeds.rewind()
    assert [seeds.next(0) for _ in range(3)] == before
    assert before[0] == 42


def test_a_subset_played_more_often_has_the_same_seeds() -> None:
    """The k-th episode of an environment is the same one, whatever the others do."""
    even, uneven = [CountEnv(i, length=1) for i in range(2)], [CountEnv(i, length=1) for i in "ab"]
    uneven = [CountEnv(i, length=1) for i in range(2)]
    rollout(manager_of(*even, seed=6), 5)
    manager = manager_of(*uneven, seed=6)
    for ids in ([1], [1], [0, 1], [0], [1, 0], [0], [1], [0]):
        manager.step(dict.fromkeys(ids, 0))
    assert [env.seeds for env in uneven] == [env.seeds for env in even]


def played(manager: Any, steps: int) -> list[dict[int, float]]:
    return [{i: float(step[i][0][0]) for i in step} for step in rollout(manager, steps)]


def pair(*, launch: bool, **options: Any) -> Any:
    return manager_of(CountEnv(0, length=4), CountEnv(1, length=5), launch=launch, **options)


@pytest.mark.parametrize("seed", [5, [3, 4], {1: 9}], ids=["run", "list", "dict"])
@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("launched", [True, False])
def test_a_state_brings_back_what_ran(seed: Any, dynamic: bool, launched: bool) -> None:
    manager = pair(launch=True, seed=1)
    manager.seed(seed, dynamic)
    played(manager, 6)
    twin = pair(launch=launched)
    twin.load_state_dict(copy.deepcopy(manager.state_dict()))
    if not launched:
        twin.launch()
    assert twin.brought_back
    assert played(twin, 9) == played(manager, 9)
    infos = [[step[i][3] for i in step] for each in (twin, manager) for step in rollout(each, 5)]
    assert infos[:5] == infos[5:], "returns and lengths of the episodes too"
    third = pair(launch=True)
    third.load_state_dict(copy.deepcopy(twin.state_dict()))
    assert played(third, 9) == played(twin, 9), "and of what was brought back itself"


def test_a_state_does_not_follow_returns_of_several_numbers() -> None:
    env: Any = CountEnv(rewards=(np.array([1.0, 2.0]),))
    env.reward_space = spaces.Box(-9, 9, (2,), np.float32)
    manager = manager_of(env)
    manager.step({0: 0})
    (running,) = manager.state_dict()["running"]
    manager.step({0: 0})
    assert running["return"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("launched", [True, False])
def test_without_actions_the_sequence_goes_on(launched: bool) -> None:
    manager = pair(launch=True, seed=1, record_actions=False)
    played(manager, 6)
    twin = pair(launch=launched, record_actions=False)
    twin.load_state_dict(copy.deepcopy(manager.state_dict()))
    if not launched:
        twin.launch()
    assert not twin.brought_back
    manager.reset()
    assert played(twin, 6) == played(manager, 6)


def test_an_environment_that_does_not_repeat_itself_begins_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    manager = pair(launch=True, seed=1)
    played(manager, 2)
    state = copy.deepcopy(manager.state_dict())
    state["running"][1]["obs"] = state["running"][1]["obs"] + 1
    twin = pair(launch=True)
    twin.load_state_dict(state)
    assert not twin.brought_back
    assert "env 1 does not repeat its episode" in caplog.text
    assert len(played(twin, 3)) == 3


def tired(*, launch: bool, **options: Any) -> Any:
    envs = (Tired(CountEnv(0, length=4)), CountEnv(1, length=5))
    return manager_of(*envs, launch=launch, **options)


def rewards_of(manager: Any, steps: int) -> list[Any]:
    return [
        {i: (step[i][0].tolist(), step[i][1]) for i in step} for step in rollout(manager, steps)
    ]


@pytest.mark.parametrize("launched", [True, False])
@pytest.mark.parametrize("before", [0, 2, 6])
def test_layers_that_remember_more_than_an_episode_are_brought_back(
    launched: bool, before: int
) -> None:
    manager = tired(launch=True, seed=1)
    rollout(manager, before)
    state = copy.deepcopy(manager.state_dict())
    twin = tired(launch=launched)
    twin.load_state_dict(state)
    if not launched:
        assert twin.state_dict()["layers"] == state["layers"]
        twin.launch()
    assert twin.brought_back
    third = tired(launch=True)
    third.load_state_dict(copy.deepcopy(twin.state_dict()))
    assert rewards_of(twin, 9) == rewards_of(manager, 9) == rewards_of(third, 9)


def test_layers_of_episodes_that_begin_anew_know_what_they_knew() -> None:
    manager = tired(launch=True, seed=1)
    rollout(manager, 6)
    state = copy.deepcopy(manager.state_dict())
    state["running"][0]["obs"] = state["running"][0]["obs"] + 1
    twin = tired(launch=True)
    twin.load_state_dict(state)
    assert not twin.brought_back
    assert twin._pool.envs[0].env.steps == 6
    twin = tired(launch=True, record_actions=False)
    twin.load_state_dict({**state, "running": None})
    assert twin._pool.envs[0].env.steps == 6
    with pytest.raises(CheckpointCorruptError, match="of env 0: none"):
        pair(launch=True).load_state_dict(state)


def test_a_state_holds_parameters_and_counters() -> None:
    manager = manager_of(*(CountEnv(i, length=1) for i in range(2)), episode_num=5)
    manager.reset({1: {"level": 3}})
    rollout(manager, 3)
    state = manager.state_dict()
    for launched in (True, False):
        twin = manager_of(*(CountEnv(i, length=1) for i in range(2)),
                          episode_num=5, launch=launched)  # fmt: skip
        twin.load_state_dict(state)
        if not launched:
            twin.launch()
        assert column(twin, 2) == {0: 0, 1: 3}
        rollout(twin, 1)
        assert not twin.done, "four of five"
        rollout(twin, 1)
        assert twin.done


def test_a_state_is_not_changed_by_what_comes_after() -> None:
    manager = manager_of(CountEnv(0, length=1))
    state = manager.state_dict()
    text = repr(state)
    manager.reset({0: {"level": 2}})
    rollout(manager, 3)
    assert repr(state) == text
