"""The registered environments: made, stepped, solved by their presets' configs."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from typing import Any

import gymnasium
import numpy as np
import pytest

from dicore.config import bind, compile_config
from dicore.errors import ConfigError
from dicore.run.env_factory import make_env_manager, spaces_of
from dicore_registry import default
from tests.conftest import printed

ENVS = {
    "acrobot": ("Acrobot-v1", -100.0, (6,), 3),
    "cartpole": ("CartPole-v1", 475.0, (4,), 2),
    "lunarlander": ("LunarLander-v3", 200.0, (8,), 4),
    "mountain_car": ("MountainCar-v0", -110.0, (2,), 3),
    "pendulum": ("Pendulum-v1", -250.0, (3,), None),
}
PRESETS = ["acrobot_dqn", "cartpole_dqn", "lunarlander_dqn", "mountain_car_dqn"]


def needs(name: str) -> None:
    if name.startswith("lunarlander") and find_spec("Box2D") is None:
        pytest.skip("the extra box2d is not installed")


def compiled(env: Any) -> Any:
    return compile_config({"env": env, "policy": {"type": "dqn", "collect": {"n_sample": 8}}})


def listed(kind: str) -> set[str]:
    mine = (kind, "dicore-contrib-envs")
    return {entry.name for entry in default().entries() if (entry.kind, entry.dist) == mine}


def test_nothing_is_registered_that_is_not_tested_here() -> None:
    assert listed("env") == {*ENVS, "gymnasium"}
    assert listed("preset") == set(PRESETS)


@pytest.mark.parametrize("name", ENVS)
def test_builds_and_steps(name: str) -> None:
    needs(name)
    env_id, stop_value, shape, actions = ENVS[name]
    env = compiled({"type": name, "collector_env_num": 2}).env
    assert (env.env_id, env.stop_value, env.n_evaluator_episode) == (env_id, stop_value, 10)
    manager = make_env_manager(env, "collector", 0)
    assert manager.env_num == 2
    assert manager.observation_space.shape == shape
    assert getattr(manager.action_space, "n", None) == actions
    manager.launch()
    assert [spec.id for spec in manager.env_attr("spec")] == [env_id] * 2
    for _ in range(30):
        answer = manager.step(manager.random_action())
        assert answer.value.obs.shape == (2, *shape)
        assert answer.value.obs.dtype == np.float32
    manager.close()


@pytest.mark.parametrize("name", sorted(set(ENVS) - {"pendulum"}))
def test_stop_values_are_those_of_gymnasium(name: str) -> None:
    env_id, stop_value, _, _ = ENVS[name]
    assert gymnasium.spec(env_id).reward_threshold == stop_value


@pytest.mark.parametrize("name", PRESETS)
def test_presets_compile_bind_and_fit_their_env(name: str) -> None:
    needs(name)
    preset = default().load(next(e for e in default().entries() if e.name == name))
    cfg = compile_config(preset)
    assert cfg.env.type == name.removesuffix("_dqn")
    assert cfg.env.evaluator_env_num == cfg.env.n_evaluator_episode
    assert cfg.policy.collect.n_sample % cfg.env.collector_env_num == 0
    assert cfg.policy.learn.batch_size == preset["policy"]["learn"]["batch_size"]
    spaces = spaces_of(cfg.env, 0)
    bound = bind(cfg, *spaces).cfg
    _, _, shape, actions = ENVS[cfg.env.type]
    assert bound.policy.model.obs_shape in (shape, shape[0])
    assert bound.policy.model.action_shape == actions


@pytest.mark.parametrize("form", ["CartPole-v1", "gymnasium:CartPole-v1", None])
def test_any_gymnasium_id_is_an_environment(form: str | None) -> None:
    chosen = {"type": form} if form else {"type": "gymnasium", "env_id": "CartPole-v1"}
    env = compiled({**chosen, "n_evaluator_episode": 3}).env
    assert (env.type, env.env_id, env.stop_value) == ("gymnasium", "CartPole-v1", 475.0)
    made = env.build(None)
    assert made.spec.id == "CartPole-v1"
    made.close()


def test_an_option_that_is_given_wins_over_the_registration() -> None:
    env = compiled({"type": "CartPole-v1", "n_evaluator_episode": 3, "stop_value": 12}).env
    assert env.stop_value == 12.0


def test_what_the_registration_does_not_say_must_be_given() -> None:
    with pytest.raises(ConfigError, match=r"env\.stop_value: must be given"):
        compiled({"type": "gymnasium:Blackjack-v1", "n_evaluator_episode": 3})
    assert compiled({"type": "FrozenLake-v1", "n_evaluator_episode": 3}).env.stop_value == 0.7
    with pytest.raises(ConfigError, match=r"env\.env_id: must be given"):
        compiled({"type": "gymnasium", "n_evaluator_episode": 3, "stop_value": 1})


@pytest.mark.parametrize(
    ("env_id", "nearest"),
    [
        ("LunarLander-v2", "LunarLander-v3"),
        ("CartPole-v7", "CartPole-v1"),
        ("gymnasium:CartPol-v1", "CartPole-v1"),
        ("gymnasium:cartpole-v1", "CartPole-v1"),
        ("CartPol-v1", "cartpole"),
        ("cartpol", "cartpole"),
        ("acrobat", "acrobot"),
    ],
)
def test_retired_and_misspelt_ids_name_the_nearest(env_id: str, nearest: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{nearest}'"):
        compiled({"type": env_id, "n_evaluator_episode": 3})


@pytest.mark.parametrize(
    ("env_id", "said"),
    [
        ("CartPole-v7", "did you mean 'CartPole-v1'"),
        ("LunarLander-v2", "did you mean 'LunarLander-v3'"),
        ("no_such_package:Thing-v0", "'no_such_package' is installed"),
        ("qqqqqqqqqqqqqqq", "install the package that registers it"),
    ],
)
def test_ids_that_nobody_has_are_refused_where_they_are_made(env_id: str, said: str) -> None:
    given = {"type": "gymnasium", "env_id": env_id, "n_evaluator_episode": 3, "stop_value": 1}
    env = compiled(given).env
    with pytest.raises(ConfigError, match=said) as caught:
        env.build(None)
    assert f"gymnasium has no '{env_id}'" in str(caught.value)


def test_arguments_reach_gymnasium() -> None:
    env = compiled(
        {"type": "cartpole", "make_kwargs": {"max_episode_steps": 3, "render_mode": "rgb_array"}}
    ).env
    made = env.build(None)
    assert (made.spec.max_episode_steps, made.render_mode) == (3, "rgb_array")
    made.close()
    manager = make_env_manager(env, "evaluator", 0, at_most=2)
    manager.launch()
    ends = [manager.step({0: 0, 1: 0})[0].truncated for _ in range(6)]
    assert ends == [False, False, True] * 2
    manager.close()


def test_modules_register_their_own_ids(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_envs.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Own-v0', 'gymnasium.envs.classic_control.cartpole:CartPoleEnv',\n"
        "                   max_episode_steps=7, reward_threshold=5)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        env = compiled({"type": "gymnasium", "env_id": "own_envs:Own-v0",
                        "n_evaluator_episode": 1}).env  # fmt: skip
        assert env.stop_value == 5.0
        made = env.build(None)
        assert made.spec.max_episode_steps == 7
        made.close()
    finally:
        gymnasium.registry.pop("Own-v0", None)
        sys.modules.pop("own_envs", None)


def test_roles_have_their_numbers_and_seeds() -> None:
    env = compiled({"type": "cartpole", "collector_env_num": 3, "evaluator_env_num": 2}).env
    managers = {role: make_env_manager(env, role, 5) for role in ("collector", "evaluator")}
    assert {role: each.env_num for role, each in managers.items()} == {
        "collector": 3, "evaluator": 2,
    }  # fmt: skip
    first = {}
    for role, manager in managers.items():
        manager.launch()
        first[role] = manager.ready_obs[0].tolist()
        manager.close()
    assert first["collector"] != first["evaluator"]


MODULES = [
    "dicore_contrib_envs",
    "dicore_contrib_envs.box2d",
    "dicore_contrib_envs.classic_control",
    "dicore_contrib_envs.gymnasium_env",
    "dicore_contrib_envs.presets",
]


@pytest.mark.parametrize("module", MODULES)
def test_configs_are_light(module: str) -> None:
    code = (
        f"import sys, {module}\n"
        "print(*({'gymnasium', 'numpy', 'torch', 'Box2D', 'pygame'} & sys.modules.keys()))"
    )
    assert printed(code).split() == []
