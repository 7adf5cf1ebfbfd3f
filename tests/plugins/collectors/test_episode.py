"""The episode collector: whole episodes, raw or as samples, with shaped rewards."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dicore.errors import UsageError
from dicore.run.checkpoint_store import read_state, write_state
from dicore.run.random import seed_everything
from dicore_plugins.collectors import EpisodeCollector
from dicore_plugins.env_managers import AsyncEnvManager, BaseEnvManager
from dicore_plugins.models.dqn.model import DQN
from dicore_plugins.policies import DQNPolicy
from tests.plugins.env_managers.toy_envs import CountEnv

from .toy_envs import Journal, Step, expected_samples

N = 3


def in_threads(env_fn: Any) -> AsyncEnvManager:
    return AsyncEnvManager(env_fn, {"children": "thread"})


class World:
    """A collector of episodes over N journals."""

    def __init__(
        self, cls: Any = BaseEnvManager, abnormal: Any = None, nstep: int = 1, **options: Any
    ) -> None:
        seed_everything(0)
        self.journals: list[list[Step]] = [[] for _ in range(N)]
        bad = abnormal or {}
        self.manager = cls(
            [lambda i=i: Journal(self.journals[i], bad.get(i, ())) for i in range(N)]
        )
        self.manager.seed(0)
        self.policy = DQNPolicy({"nstep": nstep, "discount_factor": 0.9}, model=DQN(2, 3, (4,)))
        self.collector = EpisodeCollector(options, self.manager, self.policy.collect_mode)

    def collect(self, n_episode: int | None = None, **options: Any) -> Any:
        return self.collector.collect(n_episode, policy_kwargs={"eps": 0.5}, **options)


@pytest.mark.parametrize("manager", [AsyncEnvManager, BaseEnvManager])
def test_episodes_are_whole_and_those_of_the_journals(manager: Any) -> None:
    world = World(manager)
    found: list[list[Any]] = [[] for _ in range(N)]
    for number in (10, 3, 5):
        episodes = world.collect(number, train_iter=7)
        assert len(episodes) == number
        for rows in episodes:
            (env_id,) = {int(row["env_id"]) for row in rows}
            found[env_id] += rows
            assert [bool(row["end"]) for row in rows] == [False] * (len(rows) - 1) + [True]
            assert {int(row["collect_iter"]) for row in rows} == {7}
        share = [sum(int(rows[0]["env_id"]) == i for rows in episodes) for i in range(N)]
        assert share == [number // N + (i < number % N) for i in range(N)]
    for rows, journal in zip(found, world.journals, strict=True):
        assert len(rows) == len(journal), "no environment begins an episode beyond its share"
        for row, step in zip(rows, journal, strict=True):
            np.testing.assert_array_equal(row["obs"], step["obs"])
            np.testing.assert_array_equal(row["next_obs"], step["next_obs"])
            assert (int(row["action"]), bool(row["done"])) == (step["action"], step["terminated"])
            assert float(row["reward"]) == pytest.approx(step["reward"], abs=1e-6)
    assert world.collector.envstep == sum(map(len, world.journals))
    world.manager.close()


def test_the_policy_makes_samples_if_asked_to() -> None:
    world = World(nstep=3, get_train_sample=True)
    episodes = world.collect(N)
    assert len(episodes) == N
    assert sorted(int(rows[0]["env_id"]) for rows in episodes) == list(range(N))
    for rows in episodes:
        steps = world.journals[int(rows[0]["env_id"])]
        wanted = expected_samples([*steps, *steps[-1:] * 2], 3, 0.9)
        for row, step in zip(rows, wanted, strict=True):
            assert float(row["reward"]) == pytest.approx(step["reward"], abs=1e-5)
            assert float(row["value_gamma"]) == pytest.approx(step["value_gamma"])


def test_abnormal_episodes_are_dropped_whole() -> None:
    world = World(abnormal={1: (2,)})
    episodes = world.collect(2 * N)
    assert len(episodes) == 2 * N
    bad = {step["episode"] for step in world.journals[1] if step["abnormal"]}
    kept = [step for step in world.journals[1] if step["episode"] not in bad]
    mine = [row for rows in episodes for row in rows if row["env_id"] == 1]
    assert [float(row["reward"]) for row in mine] == pytest.approx(
        [step["reward"] for step in kept], abs=1e-6
    )


class Shaped(CountEnv):
    """Adds to each reward the number of calls of `reward_shaping`; forgets a step at call 3."""

    def __init__(self, tag: int) -> None:
        super().__init__(tag, length=2 + tag)
        self.calls = 0

    def reward_shaping(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        self.calls += 1
        new = [{**row, "reward": float(row["reward"]) + 10 * self.calls} for row in rows]
        return new[: 1 if self.calls == 3 else None]


@pytest.mark.parametrize("samples", [False, True])
def test_rewards_are_shaped_once_per_episode(*, samples: bool) -> None:
    manager = BaseEnvManager([lambda tag=tag: Shaped(tag) for tag in range(2)])
    policy = DQNPolicy({"discount_factor": 0.9}, model=DQN(4, 3, (4,)))
    options = {"reward_shaping": True, "get_train_sample": samples, "n_episode": 4}
    collector = EpisodeCollector(options, manager, policy.collect_mode)
    data = collector.collect_batch(policy_kwargs={"eps": 0.0})
    assert manager.env_attr("calls") == [2, 2]
    assert data["reward"].dtype == np.float32
    added = data["reward"] - data["action"] - 0.5
    assert sorted(added.tolist()) == [10.0] * 5 + [20.0] * 5
    with pytest.raises(UsageError, match=r"env 0: reward_shaping returned 1 transitions for 2"):
        collector.collect_batch(policy_kwargs={"eps": 0.0})


def test_numbers() -> None:
    world = World(n_episode=4)
    assert len(world.collect()) == 4
    data = world.collector.collect_batch(n_sample=20, policy_kwargs={"eps": 0.5})
    assert len(data) >= 20
    assert data["end"][-1], "whole episodes"
    world = World()
    with pytest.raises(UsageError, match="n_sample and n_episode"):
        world.collector.collect_batch(n_sample=2, n_episode=2)
    world.collector.close()
    world.collector.close()
    assert world.manager.closed


def test_an_interrupted_call_goes_on_after_a_resume(tmp_path: Any) -> None:
    straight = World()
    wanted = straight.collector.collect_batch(n_episode=6, policy_kwargs={"eps": 0.0})
    world, asked = World(), iter([False] * 9 + [True])
    stopped = world.collector.collect_batch(
        n_episode=6, policy_kwargs={"eps": 0.0}, should_stop=lambda: next(asked)
    )
    assert len(stopped) == 0
    write_state(tmp_path, {"env": world.manager.state_dict(), "it": world.collector.state_dict()})
    state = read_state(tmp_path)
    twin = World()
    twin.policy.learn_mode.load_state_dict(straight.policy.learn_mode.state_dict())
    twin.manager.close()
    twin.manager.load_state_dict(state["env"])
    twin.collector.reset_env(twin.manager)
    twin.collector.load_state_dict(state["it"])
    found = twin.collector.collect_batch(n_episode=6, policy_kwargs={"eps": 0.0})
    assert found.keys() == wanted.keys()
    for key in found.keys() - {"done"}:  # journals end every other episode otherwise
        column = found.columns[key]
        np.testing.assert_array_equal(column, wanted[key], err_msg=key)
