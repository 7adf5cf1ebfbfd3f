"""FEATURES A6, A9, A11, A15, A24-A27: what can be asked of all environments."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from dicore.config import compile_config
from dicore.config.compiler import compile_section
from dicore.config.signature import config_class
from dicore.errors import ConfigError, EnvSpaceError, UsageError
from dicore.run.env_factory import BuildContext, EnvFactory, make_env_manager
from dicore_plugins.env_managers import get_vec_env_setting
from dicore_plugins.env_managers.base.manager import BaseEnvManager

from .toy_envs import CountEnv, manager_of, rollout


def test_spaces_are_there_before_the_launch_and_make_one_env() -> None:
    made: list[int] = []
    manager = BaseEnvManager([lambda i=i: made.append(i) or CountEnv(i) for i in range(3)])
    info = manager.env_info
    assert info["env_num"] == manager.env_num == 3
    assert info["observation_space"].shape == (4,)
    assert info["action_space"].n == 3
    assert (info["reward_space"].shape, info["reward_space"].dtype) == ((), np.float32)
    assert manager.info()[0] == 1
    assert manager.info().obs_space is info["observation_space"]
    assert made == [0]
    manager.launch()
    assert made == [0, 1, 2]
    assert rollout(manager, 1)[0][0][0][3] == 1, "launch has used the one that was there"


@pytest.mark.parametrize("name", ["observation_space", "action_space"])
def test_an_env_without_a_space_is_told_so(name: str) -> None:
    class Spaceless(CountEnv):
        def __init__(self) -> None:
            super().__init__()
            setattr(self, name, None)

    manager = BaseEnvManager([Spaceless])
    with pytest.raises(EnvSpaceError, match=f"Spaceless.* has no {name}"):
        getattr(manager, name)
    with pytest.raises(EnvSpaceError, match=name):
        manager.launch()
    assert manager.closed
    assert manager.reward_space.shape == ()


def test_a_reward_range_that_is_none() -> None:
    env = CountEnv()
    env.reward_range = env.metadata = None  # type: ignore[attr-defined, assignment]
    assert BaseEnvManager([lambda: env]).reward_space.low == -np.inf


def test_a_reward_space_of_the_envs_own() -> None:
    env = CountEnv(0)
    env.reward_space = spaces.Box(0, 1, (2,), np.float32)  # type: ignore[attr-defined]
    assert manager_of(env, launch=False).reward_space.shape == (2,)


def test_env_attr_returns_all_values() -> None:
    manager = manager_of(CountEnv(0), CountEnv(5))
    assert manager.env_attr("tag") == [0, 5]
    with pytest.raises(AttributeError):
        manager.env_attr("nothing")
    made = BaseEnvManager([lambda: gymnasium.make("CartPole-v1")] * 2)
    assert [spec.id for spec in made.env_attr("spec")] == ["CartPole-v1"] * 2
    assert made.env_attr("gravity") == [9.8, 9.8], "through the wrappers"
    made.close()


class Able(CountEnv):
    """Has methods that can be called on all, and some that cannot."""

    def __init__(self, tag: int) -> None:
        super().__init__(tag)
        self.recorded: list[Any] = []

    def random_action(self) -> int:
        return self.tag

    def render(self) -> Any:
        return np.full((2, 2, 3), self.tag, np.uint8)

    def enable_save_replay(self, replay_path: str) -> None:
        self.recorded.append(replay_path)

    def enable_save_figure(self, figure_path: str) -> None:
        self.recorded.append(figure_path)

    def reward_shaping(self, transitions: Any) -> Any:
        return [each * 2 for each in transitions]

    def secret(self) -> None:
        raise AssertionError


def test_methods_of_all_are_those_in_the_list() -> None:
    manager = manager_of(Able(3), Able(4))
    assert "random_action" in manager.method_name_list
    assert manager.env_call("random_action") == [3, 4]
    for name in ("secret", "step", "reset", "close", "_private"):
        with pytest.raises(UsageError, match=f"'{name}' may not be called") as caught:
            manager.env_call(name)
        assert "random_action" in caught.value.hint
    with pytest.raises(AttributeError):
        manager_of(CountEnv(0)).env_call("get_state")


def test_no_attribute_is_made_up() -> None:
    with pytest.raises(AttributeError):
        manager_of(Able(0)).secret  # type: ignore[attr-defined]  # noqa: B018


def test_pictures_of_those_that_wait() -> None:
    manager = manager_of(Able(3), Able(4), auto_reset=False)
    pictures = manager.ready_imgs
    assert {env_id: int(each[0, 0, 0]) for env_id, each in pictures.items()} == {0: 3, 1: 4}
    for _ in range(5):
        manager.step({1: 0})
    assert list(manager.ready_imgs) == [0]


def test_pictures_of_a_gymnasium_env() -> None:
    class Draws(CountEnv):
        metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"]}
        render_mode = "rgb_array"

        def render(self) -> Any:
            return np.zeros((2, 2, 3), np.uint8)

    manager = manager_of(gymnasium.wrappers.OrderEnforcing(Draws(0)))
    assert manager.ready_imgs[0].shape == (2, 2, 3)


def test_replays_and_figures(tmp_path: Path) -> None:
    envs = [Able(0), Able(1)]
    manager = manager_of(*envs)
    one, other = str(tmp_path / "a"), str(tmp_path / "b")
    manager.enable_save_replay(one)
    manager.enable_save_replay([one, other])
    manager.enable_save_figure(1, "figure")
    assert [env.recorded for env in envs] == [[one, one], [one, other, "figure"]]
    with pytest.raises(UsageError, match="1 folders for 2"):
        manager.enable_save_replay([one])
    with pytest.raises(UsageError, match="has no enable_save_replay"):
        manager_of(CountEnv(0)).enable_save_replay(one)


def test_reward_shaping() -> None:
    manager = manager_of(Able(0), CountEnv(1))
    assert manager.reward_shaping(0, [1, 2]) == [2, 4]
    assert manager.reward_shaping(1, [1, 2]) == [1, 2]


def test_a_hand_written_main() -> None:
    cfg = compile_config(
        {"env": {"type": "cartpole", "collector_env_num": 3, "evaluator_env_num": 2},
         "policy": {"type": "dqn", "collect": {"n_sample": 8}}}
    )  # fmt: skip
    env_fn, collector, evaluator = get_vec_env_setting(cfg.env)
    assert (len(collector), len(evaluator)) == (3, 2)
    manager = BaseEnvManager([lambda c=c: env_fn(c) for c in collector], cfg.env.manager)
    manager.launch()
    assert len(rollout(manager, 1, lambda _: 0)[0]) == 3
    manager.close()


def test_configs_of_each_env() -> None:
    class Section:
        def create_collector_env_cfg(self) -> Any:
            return iter([1, 2, 3])

        def create_evaluator_env_cfg(self) -> Any:
            return [4]

    _, collector, evaluator = get_vec_env_setting(Section())
    assert (collector, evaluator) == ([1, 2, 3], [4])


def test_options_as_section_dict_or_nothing() -> None:
    from dicore_plugins.env_managers.base.config import BaseManagerConfig

    for cfg in (None, {}, {"max_retry": 1}, BaseManagerConfig(max_retry=1)):
        manager = BaseEnvManager([lambda: CountEnv(0)], cfg)
        manager.launch()
        assert len(manager.ready_obs) == 1


def test_environments_in_place_of_functions_are_told_so() -> None:
    with pytest.raises(UsageError, match=r"env_fn\[1\] is a CountEnv, not a function") as told:
        BaseEnvManager([CountEnv, CountEnv(0)])
    assert "lambda: gymnasium.make" in told.value.hint


class Levels(CountEnv):
    """An env whose own class says which environments there are (DI-engine's way)."""

    def __init__(self, level: int = 0, shaped: bool = True) -> None:
        super().__init__(level)
        self.shaped = shaped

    @staticmethod
    def create_collector_env_cfg(cfg: dict[str, Any]) -> list[dict[str, Any]]:
        return [{**cfg, "level": level} for level in range(cfg.pop("collector_env_num"))]

    @staticmethod
    def create_evaluator_env_cfg(cfg: dict[str, Any]) -> list[dict[str, Any]]:
        return [{**cfg, "shaped": False}] * cfg.pop("evaluator_env_num")


def test_static_methods_of_a_registered_class_say_which_environments_there_are() -> None:
    env = compile_section(
        config_class(Levels, "env"),
        {"type": "levels", "collector_env_num": 3, "evaluator_env_num": 2, "n_evaluator_episode": 2,
         "stop_value": 9,
         "level": 7, "manager": {"type": "base"}, "env_wrapper": ["flat_obs"]},
    )  # fmt: skip
    for role, tags, shaped in (("collector", [0, 1, 2], True), ("evaluator", [7, 7], False)):
        manager = make_env_manager(env, role, 0)
        assert manager.env_attr("tag") == tags
        assert manager.env_attr("shaped") == [shaped] * len(tags)
        manager.close()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda cfg: [], "returned no config"),
        (lambda cfg: None, "not iterable"),
        (lambda cfg: [1], "not a mapping"),
        (lambda self, cfg: [cfg], "missing 1 required positional argument"),
        (lambda cfg: [{**cfg, "levle": 2}], "levle: .* did you mean 'level'"),
    ],
    ids=["none", "no list", "no dicts", "no static method", "misspelt"],
)
def test_mistakes_of_these_methods_are_errors_of_the_config(made: Any, said: str) -> None:
    members = {"create_collector_env_cfg": staticmethod(made), "__init__": Levels.__init__}
    env = compile_section(
        config_class(type("Bad", (CountEnv,), members), "env"),
        {"type": "bad", "n_evaluator_episode": 2, "stop_value": 9, "manager": {"type": "base"}},
    )
    with pytest.raises(ConfigError, match=said):
        make_env_manager(env, "collector", 0)


def test_factories_pickle() -> None:
    cfg = compile_config(
        {"env": {"type": "cartpole", "env_wrapper": ["flat_obs"]},
         "policy": {"type": "dqn", "collect": {"n_sample": 8}}}
    )  # fmt: skip
    make = EnvFactory(cfg.env, BuildContext(seed=4, run=object()))  # type: ignore[arg-type]
    made = cloudpickle.loads(cloudpickle.dumps(make))()
    assert type(made) is type(make())
    made.close()
