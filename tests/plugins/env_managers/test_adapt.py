"""RELIABILITY B09; FEATURES A1, A2, A7: older environments, known by what they do."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

from dicore.errors import EnvError, EnvStepError
from dicore.run.random import episode_seed
from dicore_plugins.env_managers.adapt import adapt
from dicore_plugins.env_managers.base.manager import BaseEnvManager

from .toy_envs import FREE, CountEnv, column, manager_of, rollout


class OldGym:
    """The API before gym 0.26: reset returns the observation, step four results, seed by method."""

    def __init__(self, length: int = 3, *, limit: bool = False) -> None:
        self.observation_space, self.action_space = FREE, spaces.Discrete(3)
        self.length, self.limit = length, limit
        self.calls: list[Any] = []
        self.count, self.drawn = 0, 0.0

    def seed(self, seed: int | None = None) -> list[int | None]:
        self.calls.append(seed)
        self.drawn = float(np.random.default_rng(seed).random())
        return [seed]

    def reset(self) -> Any:
        self.count = 0
        return self.show()

    def step(self, action: Any) -> Any:
        self.count += 1
        done = self.count == self.length
        info = {"TimeLimit.truncated": True} if done and self.limit else {}
        return self.show(), float(action), done, info

    def show(self) -> Any:
        return np.float32([self.drawn, 0, 0, self.count])

    def close(self) -> None:
        self.calls.append("close")


class Timestep(NamedTuple):
    obs: Any
    reward: Any
    done: bool
    info: dict[str, Any]


class Documented(OldGym):
    """The documents' form: a lazy simulator, timesteps, static and dynamic seeds."""

    def __init__(self, cfg: Any = None) -> None:
        super().__init__()
        self.simulator: Any = None

    def seed(self, seed: int, dynamic_seed: bool = True) -> None:  # type: ignore[override]
        self.calls.append((seed, dynamic_seed))

    def reset(self) -> Any:
        if self.simulator is None:
            self.simulator = np.random.default_rng(self.calls[-1][0])
        self.drawn = float(self.simulator.random())
        return super().reset()

    def step(self, action: Any) -> Any:
        obs, reward, done, info = super().step(action)
        told = {"final_eval_reward": 7.0} if done else info
        return Timestep(obs, np.float32([reward]), done, told)

    def close(self) -> None:
        self.simulator = None
        super().close()


class ByInfo(Documented):
    """Its shapes are told by `info()` alone."""

    def __init__(self) -> None:
        super().__init__()
        del self.observation_space, self.action_space

    def info(self) -> Any:
        class Info(NamedTuple):
            agent_num: int = 1
            obs_space: Any = FREE
            act_space: Any = spaces.Discrete(3)
            rew_space: Any = spaces.Box(0, 2, (1,))

        return Info()


class Unseeded(OldGym):
    """Has no seed method, and its reset returns info."""

    seed = None  # type: ignore[assignment]

    def reset(self) -> Any:
        return super().reset(), {"from": "reset"}


class TakesSeed:
    """Gymnasium's API without its base class."""

    def __init__(self) -> None:
        self.observation_space, self.action_space = FREE, spaces.Discrete(3)
        self.seeds: list[Any] = []

    def reset(self, *, seed: int | None = None, level: int = 0) -> Any:
        self.seeds.append(seed)
        return np.full(4, level, np.float32), {}

    def step(self, action: Any) -> Any:
        return [np.zeros(4, np.float32), 1.0, False, len(self.seeds) < 3, {}]


def test_old_gym() -> None:
    env = OldGym()
    manager = manager_of(env, seed=5)
    found = rollout(manager, 7)
    assert [step[0][0][3] for step in found] == [1, 2, 3, 1, 2, 3, 1]
    assert [step[0][2:4] for step in found][:3] == [(False, False), (False, False), (True, False)]
    assert env.calls == [episode_seed(5, "collector", 0, k) for k in range(3)]
    assert found[2][0][4]["eval_episode_return"] == 0 + 1 + 2
    manager.close()
    assert env.calls[-1] == "close"


def test_old_time_limits_are_truncations() -> None:
    found = rollout(manager_of(OldGym(limit=True)), 3)
    assert [step[0][2:4] for step in found] == [(False, False), (False, False), (False, True)]


def test_the_documents_form() -> None:
    env = Documented()
    manager = manager_of(env, seed=5)
    found = rollout(manager, 4)
    assert [step[0][1] for step in found] == [0, 1, 2, 0]
    assert [step[0][2] for step in found] == [False, False, True, False]
    assert found[2][0][4]["eval_episode_return"] == 7.0
    assert env.calls == [(episode_seed(5, "collector", 0, k), False) for k in range(2)]


def test_shapes_by_info() -> None:
    manager = BaseEnvManager([ByInfo, ByInfo])
    assert manager.observation_space is FREE
    assert manager.action_space.n == 3
    assert manager.reward_space.high == 2
    manager.seed(0)
    manager.launch()
    assert len(rollout(manager, 2)[1]) == 2
    assert manager.info().agent_num == 1


def test_without_any_seed() -> None:
    found = rollout(manager_of(Unseeded(), OldGym()), 3)
    assert [step[0][2] for step in found] == [False, False, True]


def test_gymnasiums_api_without_its_class() -> None:
    env = TakesSeed()
    manager = manager_of(env, seed=5)
    manager.reset({0: {"level": 3}})
    assert column(manager, 0) == {0: 3}
    found = rollout(manager, 2)
    assert [step[0][3] for step in found] == [True, False]
    assert env.seeds == [episode_seed(5, "collector", 0, k) for k in range(3)]


def test_it_is_said_once_for_each_class(caplog: pytest.LogCaptureFixture) -> None:
    class First(OldGym):
        pass

    with caplog.at_level("INFO", "dicore.env"):
        rollout(manager_of(First(), First()), 4)
        rollout(manager_of(CountEnv(0)), 2)
    assert [r.getMessage() for r in caplog.records] == [
        "First.step returns four results (older API): adapted to gymnasium's five"
    ]


@pytest.mark.parametrize("result", [None, 3, (1, 2, 3), tuple(range(6)), {"obs": 1}], ids=repr)
def test_steps_of_no_known_form(result: Any) -> None:
    class Odd(OldGym):
        def step(self, action: Any) -> Any:
            return result

    with pytest.raises(EnvStepError, match="step of Odd returned") as caught:
        rollout(manager_of(Odd()), 1)
    assert "gymnasium's API" in str(caught.value.__cause__.hint)  # type: ignore[union-attr]


@pytest.mark.parametrize("thing", [3, object(), type("Half", (), {"step": print})()])
def test_what_is_no_environment(thing: Any) -> None:
    with pytest.raises(EnvError, match=r"reset\(seed=…\) and step\(action\)"):
        adapt(thing)


def test_standard_wrappers_come_off_and_the_env_stays() -> None:
    core = CountEnv(0)
    env = TimeLimit(OrderEnforcing(PassiveEnvChecker(core)), 7)
    adapted = adapt(env)
    assert (adapted.env, adapted.core, adapted.time_limit) == (env, core, 7)
    assert adapted.step == core.step
    plain = adapt(core)
    assert (plain.env, plain.core, plain.time_limit) == (core, core, float("inf"))


@pytest.mark.parametrize("base", [TimeLimit, OrderEnforcing])
def test_wrappers_of_somebody_else_stay(base: type) -> None:
    class Own(base):  # type: ignore[misc]
        def step(self, action: Any) -> Any:
            return super().step(0)

    arguments = (7,) if base is TimeLimit else ()
    for env in (Own(CountEnv(0), *arguments), TimeLimit(Own(CountEnv(0), *arguments), 3)):
        adapted = adapt(env)
        assert adapted.core is env
        assert adapted.time_limit == float("inf")


def test_a_wrapper_that_changes_the_reset_is_seeded() -> None:
    class Skips(gymnasium.Wrapper[Any, Any, Any, Any]):
        def reset(self, **kwargs: Any) -> Any:
            super().reset(**kwargs)
            obs, _, _, _, info = self.env.step(0)
            return obs, info

    env = Skips(CountEnv(0, length=3))
    manager = manager_of(env, seed=2)
    rollout(manager, 2)
    assert env.unwrapped.seeds == [episode_seed(2, "collector", 0, k) for k in range(2)]
    assert column(manager, 3) == {0: 1}


def test_several_environments_in_one_are_refused() -> None:
    vector = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
    with pytest.raises(EnvError, match="SyncVectorEnv is a vector env of 2 envs") as told:
        adapt(vector)
    assert "collector_env_num" in told.value.hint
    vector.close()


class Plain(gymnasium.Env[Any, Any]):
    """Has two spaces, and no other."""

    observation_space, action_space = FREE, spaces.Discrete(3)


@pytest.mark.parametrize("base", [TakesSeed, Plain])
def test_a_method_info_of_another_kind_is_not_asked_for_spaces(base: Any) -> None:
    class Env(base):  # type: ignore[misc]
        def info(self, kind: str) -> Any:
            raise AssertionError(kind)

    manager = BaseEnvManager([Env])
    assert manager.reward_space.shape == ()
    assert manager.observation_space == Env().observation_space
    manager.close()
