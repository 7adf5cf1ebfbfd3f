"""ECOSYSTEM 1: environments of the old package `gym`, and classes with its older API."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from dicore.config.compiler import compile_section
from dicore.config.signature import config_class
from dicore.errors import ConfigError, EnvError, MissingDependencyError
from dicore.run.env_factory import BuildContext, EnvFactory, make_env_manager
from dicore.testing.compare import difference
from dicore.testing.env import failures_of
from dicore_plugins.env_managers.adapt import adapt
from dicore_plugins.env_wrappers import GymAdapter, from_gym
from dicore_plugins.env_wrappers.gym_adapter import gymnasium_space, import_gym
from dicore_registry import default

SHARED = ["CartPole-v1", "Acrobot-v1", "MountainCar-v0", "Pendulum-v1"]
"""Ids whose environments are the same in `gym` 0.26 and in Gymnasium."""


class Foreign:
    """What a space of another package than Gymnasium looks like."""

    def __init__(self, **facts: Any) -> None:
        vars(self).update(facts)


class Box(Foreign):
    pass


class Discrete(Foreign):
    pass


class Lamp:
    """A class with the API of gym 0.21, which needs no package."""

    metadata = {"render.modes": ["rgb_array"]}  # noqa: RUF012 - as such classes have it

    def __init__(self, length: int = 4) -> None:
        box = Box(low=np.zeros(2), high=np.ones(2), shape=(2,), dtype=np.dtype(np.float32))
        self.observation_space, self.action_space = box, Discrete(n=3, start=1)
        self.length = length
        self.rng = np.random.default_rng(0)

    def seed(self, seed: int | None = None) -> list[int | None]:
        self.rng = np.random.default_rng(seed)
        return [seed]

    def reset(self) -> Any:
        self.count = 0
        return self.rng.random(2).astype(np.float32)

    def step(self, action: int) -> Any:
        assert action in (1, 2, 3)
        self.count += 1
        over = self.count == self.length
        obs = self.rng.random(2).astype(np.float32)
        return obs, float(action), over, {"TimeLimit.truncated": True} if over else {}

    def render(self, mode: str = "human") -> Any:
        return np.full((8, 8, 3), ord(mode[0]), np.uint8)


class Passing:
    """A wrapper of gym 0.21: its `reset` hands on whatever it is given."""

    def __init__(self, env: Any) -> None:
        self.env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def reset(self, **kwargs: Any) -> Any:
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> Any:
        return self.env.step(action)


def rollout(env: Any, actions: list[Any], seed: int = 3) -> list[Any]:
    told: list[Any] = [env.reset(seed=seed)[0]]
    told += [env.step(action)[:4] for action in actions]
    env.close()
    return told


@pytest.mark.parametrize("env_id", SHARED)
def test_an_env_of_gym_is_that_of_gymnasium(env_id: str) -> None:
    pytest.importorskip("gym")
    old, new = from_gym(env_id), gymnasium.make(env_id)
    assert isinstance(old, GymAdapter)
    assert old.action_space == new.action_space
    new.action_space.seed(0)
    actions = [new.action_space.sample() for _ in range(8)]
    told, wanted = rollout(old, actions), rollout(new, actions)
    assert not difference(told, wanted)
    assert not hasattr(np, "bool8") or np.__version__ < "2"


@pytest.mark.parametrize("env_id", ["FrozenLake-v1", "CliffWalking-v0"])
def test_an_env_of_gym_keeps_the_contract_of_environments(env_id: str) -> None:
    pytest.importorskip("gym")
    assert failures_of(lambda: from_gym(env_id)) == {}


def test_the_checker_of_gym_runs_on_numpy_2() -> None:
    gym = pytest.importorskip("gym")
    import_gym()
    env = gym.make("CartPole-v1", disable_env_checker=False)
    env.reset(seed=0)
    assert len(env.step(0)) == 5


NOTICE = """
import logging
logging.basicConfig(level=logging.INFO, format="%(message)s")
from dicore_plugins.env_wrappers import from_gym
from_gym("CartPole-v1"), from_gym("CartPole-v1")
"""


def test_the_notice_of_gym_is_one_line() -> None:
    pytest.importorskip("gym")
    done = subprocess.run(
        [sys.executable, "-c", NOTICE], capture_output=True, text=True, check=True, timeout=200
    )
    assert done.stderr == "gym 0.26.2 (unmaintained): adapted to gymnasium's API\n"
    assert done.stdout == ""


def test_a_vector_env_of_gym_is_refused() -> None:
    gym = pytest.importorskip("gym")
    vector = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1", disable_env_checker=True)])
    with pytest.raises(EnvError, match="is a vector env of 1 envs"):
        adapt(vector)
    vector.close()


def test_every_space_of_gym() -> None:
    gym = pytest.importorskip("gym")
    old = gym.spaces
    box = old.Box(-2.0, np.array([1.0, 3.0]), dtype=np.float64)
    new_box = spaces.Box(-2.0, np.array([1.0, 3.0]), dtype=np.float64)
    pairs = [
        (box, new_box),
        (old.Box(0, 255, (4, 4), np.uint8), spaces.Box(0, 255, (4, 4), np.uint8)),
        (old.Discrete(3, start=-1), spaces.Discrete(3, start=-1)),
        (old.MultiBinary([2, 3]), spaces.MultiBinary([2, 3])),
        (old.MultiDiscrete([3, 4]), spaces.MultiDiscrete([3, 4])),
        (old.Tuple((box, old.Discrete(2))), spaces.Tuple((new_box, spaces.Discrete(2)))),
        (old.Dict(x=old.Dict(y=box)), spaces.Dict(x=spaces.Dict(y=new_box))),
        (old.Text(5), spaces.Text(5)),
        (old.Sequence(box), spaces.Sequence(new_box)),
        (old.Graph(box, None), spaces.Graph(new_box, None)),
    ]
    for given, wanted in pairs:
        made = gymnasium_space(given)
        assert made == wanted
        if not isinstance(made, spaces.Graph):  # its samples are tuples of either package
            assert made.contains(given.sample())


def test_spaces_of_gymnasium_stay_what_they_are() -> None:
    class Own(spaces.Discrete):
        pass

    own = Own(3)
    assert gymnasium_space(own) is own
    assert gymnasium_space(None) is None


class TestWithoutGym:
    @pytest.fixture(autouse=True)
    def _absent(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        monkeypatch.setitem(sys.modules, "gym", None)
        import_gym.cache_clear()
        yield
        import_gym.cache_clear()

    def test_an_id_names_the_extra(self) -> None:
        with pytest.raises(MissingDependencyError, match="need the package gym") as caught:
            from_gym("CartPole-v1")
        assert "dicore-plugins[gym]" in caught.value.hint

    def test_an_old_class(self) -> None:
        env = from_gym(Lamp())
        assert env.observation_space == spaces.Box(0.0, 1.0, (2,), np.float32)
        assert env.action_space == spaces.Discrete(3, start=1)
        told = rollout(env, [1, 2, 3, 1])
        assert [step[1:] for step in told[1:]] == [
            (1.0, False, False), (2.0, False, False), (3.0, False, False), (1.0, False, True),
        ]  # fmt: skip
        assert env.metadata == {"render_modes": ["rgb_array"]}
        assert env.render()[0, 0, 0] == ord("r")

    def test_an_old_class_keeps_the_contract_of_environments(self) -> None:
        assert failures_of(lambda: from_gym(Lamp())) == {}
        assert failures_of(lambda: from_gym(Passing(Passing(Lamp())))) == {}

    @pytest.mark.parametrize(
        "wrapper",
        ["frame_stack", {"type": "noop_reset", "noop_action": 1}, "flat_obs", "clip_reward"],
        ids=str,
    )
    def test_wrappers_take_an_old_class(self, wrapper: Any) -> None:
        cfg = compile_section(
            config_class(Lamp, "env"),
            {"type": "lamp", "env_wrapper": [wrapper], "length": 9, "n_evaluator_episode": 1,
             "stop_value": 1.0, "collector_env_num": 2, "manager": {"type": "base"}},
        )  # fmt: skip
        manager = make_env_manager(cfg, "collector", 0)
        manager.launch()
        assert len(manager.step({0: 1, 1: 2})) == 2
        assert manager.env_attr("length") == [9, 9]
        manager.close()
        assert EnvFactory(cfg, BuildContext())().unwrapped.env.length == 9


def test_the_wrapper_by_name() -> None:
    target = default().resolve("env_wrapper", "gym_to_gymnasium").target
    section = compile_section(config_class(target, "env_wrapper"), {"type": "gym_to_gymnasium"})
    assert isinstance(section.build(None, env=Lamp()), gymnasium.Env)
    new = gymnasium.make("CartPole-v1")
    assert section.build(None, env=new) is new


@pytest.mark.parametrize("env", [3, object(), type("Half", (), {"step": print})()])
def test_what_is_no_environment(env: Any) -> None:
    with pytest.raises(EnvError, match=r"reset\(seed=…\) and step\(action\)"):
        from_gym(env)


def test_a_tuple_of_two_observations_is_not_taken_for_obs_and_info() -> None:
    class Pair(Lamp):
        def __init__(self) -> None:
            super().__init__()
            self.observation_space = spaces.Tuple((spaces.Discrete(2), spaces.Dict()))

        def reset(self) -> Any:
            return 1, {}

    assert from_gym(Pair()).reset(seed=0) == ((1, {}), {})


def section(**options: Any) -> Any:
    target = default().resolve("env", "gym").target
    common = {
        "type": "gym",
        "manager": {"type": "base"},
        "n_evaluator_episode": 1,
        "collector_env_num": 2,
    }
    return compile_section(target, {**common, **options})


def test_ids_from_a_config() -> None:
    pytest.importorskip("gym")
    cfg = section(env_id="MountainCar-v0", stop_value=1.0)
    assert cfg.from_spec() == {"stop_value": -110.0}
    manager = make_env_manager(cfg, "collector", 0)
    manager.launch()
    assert isinstance(manager.action_space, spaces.Discrete)
    for _ in range(200):
        answer = manager.step({0: 0, 1: 0})
    assert answer.value.truncated.tolist() == [True, True]
    manager.close()
    drawn = cfg.with_pictures().build(None)
    drawn.reset(seed=0)
    assert drawn.render().dtype == np.uint8
    drawn.close()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"env_id": "CartPol-v1"}, r"env\.env_id: gym 0\.26\.2: .*CartPole"),
        ({"env_id": "Taxi-v9"}, r"env\.env_id: gym 0\.26\.2: .*v3"),
        ({"env_id": "no_module:Taxi-v3"}, r"env\.env_id: 'no_module:Taxi-v3': No module"),
    ],
)
def test_unknown_ids(options: dict[str, Any], said: str) -> None:
    pytest.importorskip("gym")
    with pytest.raises(ConfigError, match=said):
        section(**options, stop_value=1.0).build(None)
