"""Other pools than the one of this process: they step and reset, the manager does the rest."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from dicore.data import tree_map
from dicore.errors import EnvStateError, EnvStepError, NonFiniteError
from dicore.interfaces.env_manager import EnvState
from dicore.testing.env_manager import EnvManagerContract
from dicore_plugins.env_managers import BaseEnvManager, EnvPool, ThreadEnvManager
from dicore_plugins.env_managers.env_pool import Results

from .toy_envs import CountEnv, Faulty, SpaceEnv, manager_of, rollout


class LatePool(EnvPool):
    """Answers for a random part of the environments that were sent an action."""

    def __init__(self, env_fn: Any, cfg: Any) -> None:
        super().__init__(env_fn, cfg)
        self.sent: dict[int, Any] = {}
        self.rng = np.random.default_rng(0)

    def step(self, ids: list[int], actions: Iterable[Any]) -> Results:
        self.sent |= zip(ids, actions, strict=True)
        count = int(self.rng.integers(1, len(self.sent) + 1))
        ready = self.rng.permutation(list(self.sent))[:count].tolist()
        return super().step(ready, [self.sent.pop(each) for each in ready])

    def reset(self, ids: Sequence[int], seeds: Any, params: Any) -> list[Any]:
        for env_id in ids:
            self.sent.pop(env_id, None)
        return super().reset(ids, seeds, params)


class LateManager(BaseEnvManager):
    pool_class = LatePool
    capabilities = BaseEnvManager.capabilities - {"lockstep"}


class TestLateManager(EnvManagerContract):
    def make(self, env_fn: Sequence[Any], options: Mapping[str, Any] | None = None) -> LateManager:
        return LateManager(env_fn, options)


def late(*envs: Any, **options: Any) -> LateManager:
    manager = LateManager([lambda env=env: env for env in envs], options)
    manager.seed(0)
    manager.launch()
    return manager


def play(manager: Any, count: int) -> dict[int, list[Any]]:
    """Steps every environment `count` times; returns what it showed, paid and ended with."""
    found: dict[int, list[Any]] = {env_id: [] for env_id in range(manager.env_num)}
    while min(map(len, found.values())) < count:
        answer = manager.step({i: len(found[i]) % 3 for i in manager.ready_obs})
        for env_id in answer:
            step = answer[env_id]
            found[env_id].append((step.obs.tolist(), float(step.reward), step.done, step.info))
    return {env_id: steps[:count] for env_id, steps in found.items()}


def test_late_answers_are_those_of_lockstep() -> None:
    def envs() -> list[Any]:
        return [CountEnv(tag, length) for tag, length in enumerate((2, 5, 3))]

    assert play(late(*envs()), 20) == play(manager_of(*envs()), 20)


def test_what_is_pending_is_not_ready() -> None:
    manager = late(*(CountEnv(tag) for tag in range(3)))
    while len(manager.ready_obs) == 3:
        manager.step({0: 0, 1: 0, 2: 0})
    waits = next(each for each in range(3) if each not in manager.ready_obs)
    assert manager.env_state(waits) is EnvState.STEP
    with pytest.raises(EnvStateError, match=f"env {waits} is STEP"):
        manager.step({waits: 0})
    while len(manager.ready_obs) < 3:
        assert len(manager.step({})) >= 1
    with pytest.raises(EnvStateError, match="none was"):
        manager.step({})


def test_a_reset_drops_what_is_pending() -> None:
    manager = late(*(CountEnv(tag) for tag in range(3)))
    while len(manager.ready_obs) == 3:
        manager.step({0: 0, 1: 0, 2: 0})
    manager.reset()
    assert len(manager.ready_obs) == 3
    assert {int(manager.ready_obs[each][3]) for each in range(3)} == {0}


def test_a_pending_action_is_no_part_of_a_saved_episode() -> None:
    envs = [CountEnv(tag, length=50) for tag in range(3)]
    manager = late(*envs)
    play(manager, 5)
    manager.step(dict.fromkeys(manager.ready_obs, 1))
    while len(manager.ready_obs) == 3:
        manager.step(dict.fromkeys(manager.ready_obs, 1))
    twin = LateManager([lambda tag=tag: CountEnv(tag, length=50) for tag in range(3)])
    twin.load_state_dict(manager.state_dict())
    twin.launch()
    assert twin.brought_back
    ready = twin.ready_obs
    assert [int(ready[each][3]) for each in range(3)] == [
        env.count - (each not in manager.ready_obs and each not in manager._pool.sent)
        for each, env in enumerate(envs)
    ]


def test_late_faults_are_those_of_their_environment() -> None:
    def boom(*_: Any) -> Any:
        raise RuntimeError("gone")

    manager = late(CountEnv(0), Faulty(boom), CountEnv(2), restart_budget=1)
    infos = play(manager, 9)
    assert [step[3].get("abnormal", False) for step in infos[1]] == [False, True] + [False] * 7
    assert not any("abnormal" in step[3] for each in (0, 2) for step in infos[each])


class StackedPool(EnvPool):
    """Answers with stacked observations, in two blocks that it writes in turn."""

    blocks: Any = None
    turn = 0
    handed: Any = None

    def step(self, ids: list[int], actions: Iterable[Any]) -> Results:
        _, obs, rewards, infos, ended, raised = super().step(ids, actions)
        example = next((each for each in obs if each is not None), np.zeros(4, np.float32))
        rows = [example if each is None else each for each in obs]
        if isinstance(example, np.ndarray) and len(set(map(np.shape, rows))) > 1:
            return ids, obs, rewards, infos, ended, raised
        stacked = tree_map(lambda *each: np.stack(each), rows[0], *rows[1:])
        if self.blocks is None or len(ids) < len(self.ids):
            blocks = [stacked, tree_map(np.copy, stacked)]
            self.blocks = blocks if len(ids) == len(self.ids) else None
        else:
            self.turn = 1 - self.turn
            blocks = self.blocks
            tree_map(np.copyto, blocks[self.turn], stacked)
        self.handed = blocks[self.turn]
        if all(isinstance(each, float) for each in rewards):
            rewards = np.array(rewards)
        return ids, self.handed, rewards, infos, ended, raised


class StackedManager(BaseEnvManager):
    pool_class = StackedPool


class TestStackedManager(EnvManagerContract):
    def make(
        self, env_fn: Sequence[Any], options: Mapping[str, Any] | None = None
    ) -> StackedManager:
        return StackedManager(env_fn, options)


def stacked(*envs: Any, **options: Any) -> StackedManager:
    manager = StackedManager([lambda env=env: env for env in envs], options)
    manager.seed(0)
    manager.launch()
    return manager


def test_stacked_observations_are_not_stacked_again() -> None:
    manager = stacked(CountEnv(0), CountEnv(1))
    answer = manager.step_into({0: 0, 1: 0})
    assert answer.value.obs is not manager._pool.handed, "small ones are copied"
    space = spaces.Box(0, 255, (84, 84), np.uint8)
    manager = stacked(SpaceEnv(space, 0), SpaceEnv(space, 0))
    answer = manager.step_into({0: 0, 1: 0})
    assert answer.value.obs is manager._pool.handed
    assert manager.ready_obs.value is manager._pool.handed
    assert manager.step({0: 0, 1: 0}).value.obs is not manager._pool.handed


@pytest.mark.parametrize("stepped", [[0, 1], [1]])
def test_stacked_observations_of_nested_spaces(stepped: list[int]) -> None:
    space = spaces.Dict(a=spaces.Box(0, 255, (84, 84), np.uint8), b=spaces.Discrete(5))
    envs = [SpaceEnv(space, 7), SpaceEnv(space, 7)]
    manager = stacked(*envs)
    for _ in range(20):
        answer = manager.step_into(dict.fromkeys(stepped, 0))
        for row, env_id in enumerate(stepped):
            shown = envs[env_id].shown[-2 if answer[env_id].done else -1]
            assert np.array_equal(answer.value.obs["a"][row], shown["a"])
            assert answer.value.obs["b"][row] == shown["b"]


@pytest.mark.parametrize("bad", ["nan", "raise"])
def test_stacked_faults_are_named(bad: str) -> None:
    def fault(obs: Any, *rest: Any) -> Any:
        if bad == "raise":
            raise RuntimeError("gone")
        return obs * np.float32("nan"), *rest

    manager = stacked(CountEnv(0), Faulty(fault))
    rollout(manager, 1)
    with pytest.raises((NonFiniteError, EnvStepError), match="env 1"):
        rollout(manager, 1)
    manager = stacked(CountEnv(0), Faulty(fault), restart_budget=1)
    rollout(manager, 1)
    found = rollout(manager, 1)[0]
    assert found[1][4]["abnormal"]
    assert found[1][0][3] == 1, "the last observation before the failure"
    assert found[0][0][3] == 2


class Fuzzy(CountEnv):
    """Fails in every way, at steps that its seed decides."""

    def step(self, action: Any) -> Any:
        obs, reward, *_ = super().step(action)
        chance = random.Random(self.seeds[-1] * 1000 + self.count)
        kind, info = chance.random() * 100, {"at": self.count} if chance.random() < 0.5 else {}
        if kind < 1:
            raise RuntimeError("gone")
        bad: list[Any] = [
            (obs[:2], reward, False, False, info),
            (obs * np.float32("nan"), reward, False, False, info),
            (obs, "3", False, False, info),
            (obs, reward, float("nan"), False, info),
            (obs, reward, True, False, None),
            (obs, float("inf"), False, True, info),
        ]
        good = (obs, chance.random(), kind > 95, kind > 93, info)
        return bad[int(kind)] if kind < len(bad) else good


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cls", [LateManager, StackedManager, ThreadEnvManager])
def test_failures_are_the_same_in_every_pool(cls: type[BaseEnvManager], seed: int) -> None:
    found = []
    for each in (BaseEnvManager, cls):
        options = {"restart_budget": 10**6, "retry_type": ("reset", "renew")[seed % 2]}
        manager = each([lambda tag=tag: Fuzzy(tag, 0) for tag in range(3)], options)
        manager.seed(seed)
        manager.launch()
        found.append(play(manager, 150))
        manager.close()
    for steps in found[0].values():
        assert sum("abnormal" in step[3] for step in steps) > 3
    assert found[0] == found[1]


def test_the_next_reset_can_be_peeked() -> None:
    envs = [CountEnv(0, 2), CountEnv(1, 2)]
    manager = manager_of(*envs)
    for _ in range(3):
        seed, params = manager._pool.next_reset(1)
        assert (seed, params) == manager._pool.next_reset(1)
        rollout(manager, 2)
        assert (envs[1].seeds[-1], envs[1].level) == (seed, params.get("level", 0))
        manager.reset({1: {"level": 4}})
    manager.load_state_dict(manager.state_dict())
    seed, params = manager._pool.next_reset(1)
    assert params == {"level": 4}
    manager.reset([1])
    assert envs[1].seeds[-1] == seed
