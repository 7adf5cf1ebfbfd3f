"""The registered environments: made, stepped, solved by their presets' configs."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
import pytest

from dicore.cli import main
from dicore.config import bind, compile_config
from dicore.errors import (
    ConfigError,
    ConfigWarning,
    EnvCreateError,
    MissingDependencyError,
    UsageError,
)
from dicore.run.env_factory import BuildContext, EnvFactory, make_env_manager, spec_of
from dicore_contrib_envs import gymnasium_env
from dicore_contrib_envs.gymnasium_env import GymnasiumConfig
from dicore_contrib_envs.gymnasium_ids import render_headless, tell_of_later
from dicore_contrib_envs.one_at_a_time import OneAtATime
from dicore_plugins.env_managers import ThreadEnvManager
from dicore_registry import default
from dicore_registry.entry import family
from tests.conftest import printed
from tests.plugins.datasets.test_offline import cartpole, pendulum
from tests.soak import some


class Env(NamedTuple):
    """What a component makes.

    Args:
        env_id: Its default id.
        stop_value: Its default stop value; None: there is none.
        shape: Shape of an observation; None: not an array.
        actions: Number of actions, or shape of array actions; None: a dict.
        episodes: Episodes per evaluation.
        needs: Module that an extra installs.
    """

    env_id: str
    stop_value: float | None
    shape: tuple[int, ...] | None
    actions: int | tuple[int, ...] | None
    episodes: int = 10
    needs: str = ""


INF = float("inf")
TASKS = "dicore_contrib_envs.tasks:"
ENVS = {
    "acrobot": Env("Acrobot-v1", -100.0, (6,), 3),
    "ant": Env("Ant-v5", 6000.0, (105,), (8,), needs="mujoco"),
    "atari": Env("ALE/Seaquest-v5", None, (4, 84, 84), 18, needs="ale_py"),
    "bit_flip": Env(TASKS + "BitFlip-v0", -3.3157, None, 8, 100),
    "bipedalwalker": Env("BipedalWalker-v3", 300.0, (24,), (4,), needs="Box2D"),
    "blackjack": Env("Blackjack-v1", -0.06, None, 2, 2_000),
    "breakout": Env("ALE/Breakout-v5", 400.0, (4, 84, 84), 4, needs="ale_py"),
    "car_racing": Env("CarRacing-v3", 900.0, (96, 96, 3), (3,), 5, needs="Box2D"),
    "cartpole": Env("CartPole-v1", 475.0, (4,), 2),
    "cartpole_pomdp": Env("CartPole-v1", 475.0, (2,), 2),
    "chain": Env(TASKS + "Chain-v0", 10.0, (30,), 2, 5),
    "cliffwalking": Env("CliffWalking-v1", -13.0, (), 4, 5),
    "dm_control": Env("dm_control/cartpole-balance-v0", None, (5,), (1,), needs="dm_control"),
    "frozenlake": Env("FrozenLake-v1", 0.7, (), 4, 100),
    "halfcheetah": Env("HalfCheetah-v5", 4800.0, (17,), (6,), needs="mujoco"),
    "hopper": Env("Hopper-v5", 3800.0, (11,), (3,), needs="mujoco"),
    "humanoid": Env("Humanoid-v5", INF, (348,), (17,), needs="mujoco"),
    "lunarlander": Env("LunarLander-v3", 200.0, (8,), 4, needs="Box2D"),
    "lunarlander_continuous": Env("LunarLanderContinuous-v3", 200.0, (8,), (2,), needs="Box2D"),
    "minatar": Env("MinAtar/Breakout-v1", None, (10, 10, 4), 3, 20, needs="minatar"),
    "mini_breakout": Env(TASKS + "MiniBreakout-v0", 10.0, (10, 10, 4), 3, 20),
    "minigrid": Env("MiniGrid-Empty-5x5-v0", 0.95, (7, 7, 20), 7, needs="minigrid"),
    "mountain_car": Env("MountainCar-v0", -110.0, (2,), 3),
    "mountain_car_continuous": Env("MountainCarContinuous-v0", 90.0, (2,), (1,)),
    "moving": Env(TASKS + "Moving-v0", 1.8, (8,), None, 50),
    "nim": Env(TASKS + "Nim-v0", 1.0, (2, 22), (2,), 50),
    "pendulum": Env("Pendulum-v1", -250.0, (3,), (1,)),
    "pendulum_pomdp": Env("Pendulum-v1", -250.0, (2,), (1,)),
    "pong": Env("ALE/Pong-v5", 20.0, (4, 84, 84), 6, needs="ale_py"),
    "swimmer": Env("Swimmer-v5", 360.0, (8,), (2,), needs="mujoco"),
    "t_maze": Env(TASKS + "TMaze-v0", 3.9, (3,), 4, 20),
    "taxi": Env("Taxi-v4", 7.0, (), 6, 100),
    "two_step": Env(TASKS + "TwoStep-v0", 8.0, (2, 5), (2,), 5),
    "walker2d": Env("Walker2d-v5", INF, (17,), (6,), needs="mujoco"),
}
BY_DQN = {
    "acrobot_dqn", "bit_flip_dqn", "blackjack_dqn", "breakout_dqn", "car_racing_dqn",
    "cartpole_dqn", "cartpole_pomdp_dqn", "cliffwalking_dqn", "frozenlake_dqn", "lunarlander_dqn",
    "mini_breakout_dqn", "minigrid_dqn", "mountain_car_dqn", "pong_dqn",
    "t_maze_dqn", "taxi_dqn", "two_step_dqn",
}  # fmt: skip
MINE = [each for each in default().entries() if each.dist == "dicore-contrib-envs"]
PRESETS = {each.name for each in MINE if each.kind == "preset"}


def needs(name: str) -> None:
    entry = next(e for e in default().entries("env") if e.name == name)
    if entry.status == "unavailable":
        pytest.skip(entry.reason)


def compiled(env: Any) -> Any:
    return compile_config({"env": env, "policy": {"type": "dqn", "collect": {"n_sample": 8}}})


def section(name: str, **options: Any) -> Any:
    """Returns the compiled section of an env, with an id and a stop value if it needs them."""
    env = ENVS[name]
    ids = {"env_id": env.env_id} if name == "atari" else {}
    stop = {"stop_value": 1.0} if env.stop_value is None else {}
    return compiled({"type": name, **ids, **stop, **options}).env


def test_nothing_is_registered_that_is_not_tested_here() -> None:
    assert {each.name for each in MINE if each.kind == "env"} == {*ENVS, "gymnasium"}
    assert {name for name in PRESETS if name.endswith("_dqn")} == BY_DQN


@pytest.mark.parametrize("name", ENVS)
def test_builds_and_steps(name: str) -> None:
    needs(name)
    wanted = ENVS[name]
    env = section(name, collector_env_num=2)
    assert (env.env_id, env.n_evaluator_episode) == (wanted.env_id, wanted.episodes)
    assert env.stop_value == pytest.approx(wanted.stop_value or 1.0, abs=1e-4)
    manager = make_env_manager(env, "collector", 0)
    try:
        assert manager.env_num == 2
        assert manager.observation_space.shape == wanted.shape
        space = manager.action_space
        assert getattr(space, "n", space.shape) == wanted.actions
        manager.launch()
        made = wanted.env_id.removeprefix(TASKS)
        assert [spec.id for spec in manager.env_attr("spec")] == [made] * 2
        for _ in range(10):
            answer = manager.step(manager.random_action())
            if wanted.shape is not None:
                assert answer.value.obs.shape == (2, *wanted.shape)
                assert answer.value.obs.dtype.kind == manager.observation_space.dtype.kind
    finally:
        manager.close()


OF_GYMNASIUM = [name for name, env in ENVS.items() if not env.env_id.startswith(TASKS)]


@pytest.mark.parametrize("name", sorted({*OF_GYMNASIUM} - {"taxi", "pendulum"}))
def test_stop_values_are_those_of_gymnasium(name: str) -> None:
    needs(name)
    env = section(name)
    env.build(None).close()  # registers the id
    threshold = gymnasium.spec(env.env_id).reward_threshold
    assert threshold is None or threshold == env.stop_value


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_presets_compile_bind_and_fit_their_env(name: str) -> None:
    preset = default().load(next(each for each in MINE if each.name == name))
    env, policy = preset["env"]["type"], preset["policy"]["type"]
    reward_model = preset["policy"].get("reward_model", {}).get("type")
    assert family(name)[0] == "_".join(filter(None, (env, policy, reward_model)))
    needs(env)
    cfg = compile_config(preset)
    assert (cfg.env.type, cfg.policy.type) == (env, policy)
    assert cfg.env.n_evaluator_episode % cfg.env.evaluator_env_num == 0
    assert (cfg.policy.collect.n_sample or 0) % cfg.env.collector_env_num == 0
    spaces = spec_of(cfg.env, 0)
    assert bind(cfg, spaces).cfg.policy.model.obs_shape


QUICK = (
    "env.n_evaluator_episode=1",
    "env.evaluator_env_num=1",
    "policy.eval.evaluator.eval_freq=100000",
    "pipeline.logger=[]",
)
CHEAP = {"moving_pdqn", "pendulum_sac"}
OFFLINE = {"bc", "ibc"}
SHOWN = {*OFFLINE, "bco", "dqfd", "r2d3", "rbc", "sqil"}
"""Algorithms that learn from demonstrations, here of random actions."""
HEAVY = {*SHOWN, "dueling", "fqf", "ppo", "pqn", "r2d2", "rainbow", "sac", "sql", "sqn"}
SLOW = {
    *(name for name in PRESETS if name.rpartition("_")[2] in HEAVY),
    "acrobot_dqn", "breakout_dqn", "car_racing_dqn", "mountain_car_dqn", "pong_dqn",
    "chain_dqn_rnd", "mountain_car_dqn_rnd",
} - CHEAP - {"cartpole_bc"}  # fmt: skip
OTHERWISE = {"env_supervisor", "sync_subprocess", "thread", "vector"}
"""Managers that step `pendulum_sac` in `make test`, and hybrid actions in a soak only."""
MANAGERS = sorted(
    each.name
    for each in map(default().judged, default().entries("env_manager"))
    if each.dist == "dicore-plugins"
    and each.status == "ok"
    and each.name not in {"ale_vector", "base", "envpool"}
)


def env_of(preset: str) -> str:
    """Returns the environment in the name of a preset."""
    return max((name for name in ENVS if preset.startswith(f"{name}_")), key=len)


def algorithm_of(preset: str) -> str:
    """Returns the algorithm in the name of a preset."""
    return preset.removeprefix(f"{env_of(preset)}_")


FIRST = {algorithm_of(each): each for each in sorted({*PRESETS} - SLOW, reverse=True)}.values()
"""One preset of each algorithm; all compile, bind and fit their environment."""
TRAINED = some([*FIRST], 12, "presets")
"""Those that are trained: the conformance suite trains each algorithm."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            each,
            marks=pytest.mark.slow if each in SLOW else () if each in TRAINED else pytest.mark.soak,
        )
        for each in sorted(PRESETS)
    ],
)
def test_presets_train_from_the_command_line(name: str, tmp_path: Path) -> None:
    train(name, tmp_path)


OF_ENVPOOL = {
    "acrobot", "ant", "bipedalwalker", "blackjack", "cartpole", "frozenlake",
    "halfcheetah", "hopper", "humanoid", "lunarlander", "lunarlander_continuous",
    "mountain_car", "mountain_car_continuous", "pendulum", "swimmer", "walker2d",
}  # fmt: skip
"""Environments that EnvPool has too, and that have no wrappers."""
WITH_MANAGERS = [
    pytest.param(
        name,
        manager,
        marks=pytest.mark.slow
        if name not in CHEAP
        else pytest.mark.soak
        if name == "moving_pdqn" and manager in OTHERWISE
        else (),
    )
    for name in sorted(PRESETS)
    for manager in [
        *MANAGERS,
        *["envpool"] * (env_of(name) in OF_ENVPOOL),
        *["ale_vector"] * (env_of(name) in {"pong", "breakout"}),
    ]
]


@pytest.mark.parametrize(("name", "manager"), WITH_MANAGERS)
def test_presets_train_with_every_manager(name: str, manager: str, tmp_path: Path) -> None:
    options = [f"env.manager.type={manager}"]
    if manager in ("ale_vector", "envpool"):
        pytest.importorskip({"ale_vector": "ale_py"}.get(manager, manager))
    train(name, tmp_path, *options)


def train(name: str, folder: Path, *options: str) -> None:
    """Trains a preset for some hundred steps from the command line."""
    preset = default().load(next(each for each in MINE if each.name == name))
    env, policy = preset["env"]["type"], preset["policy"]["type"]
    needs(env)
    if compile_config(preset).policy.offline:
        train_offline(env, policy, folder, *options)
        return
    steps = max(300, 64 + preset["policy"]["learn"].get("batch_size", 0))
    warms_up = "random_collect_size" in preset["policy"].get("collect", {})
    quick = [*QUICK, *["policy.collect.random_collect_size=0"] * warms_up]
    if policy in SHOWN:
        quick += ["pipeline.expert.type=random", "pipeline.expert_episodes=8"]
    budget = ["--max-train-iter", "9"] if policy in OFFLINE else ["--max-env-step", str(steps)]
    named = ["-e", env, "-p", policy] if name == f"{env}_{policy}" else [name]
    words = ["train", *named, *budget, *quick]
    assert main([*words, *options, "--exp-name", str(folder / "run")]) == 0
    result = json.loads((folder / "run/run.json").read_text())["result"]
    assert result["env_step"] >= (0 if policy in OFFLINE else 300)
    assert result["train_iter"] > 0


def train_offline(env: str, policy: str, folder: Path, *options: str) -> None:
    """Trains a preset for some updates from random episodes."""
    path = {"cartpole": cartpole, "pendulum": pendulum}[env](folder / "data.npz")
    words = ["train", "-e", env, "-p", policy, "-m", "serial_offline", "--max-train-iter", "20"]
    words += ["pipeline.dataset.type=npz", f"pipeline.dataset.path={path}", *QUICK, *options]
    assert main([*words, "--exp-name", str(folder / "run")]) == 0
    result = json.loads((folder / "run/run.json").read_text())["result"]
    assert (result["env_step"], result["train_iter"]) == (0, 20)


@pytest.mark.skipif(sys.platform != "linux", reason="has a display")
def test_what_is_drawn_without_a_display_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """By SDL's driver `dummy`, highway-env draws nothing: black videos, black observations."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MUJOCO_GL", "egl")
    render_headless()
    assert os.environ["SDL_VIDEODRIVER"] == "offscreen"
    monkeypatch.setenv("SDL_VIDEODRIVER", "mine")
    render_headless()
    assert os.environ["SDL_VIDEODRIVER"] == "mine"


def test_wrappers_of_minigrid_take_its_own_observations() -> None:
    pytest.importorskip("minigrid")
    wrapped = {"type": "minigrid", "env_wrapper": ["minigrid.wrappers:ImgObsWrapper"]}
    with pytest.raises(ConfigError, match=r"env\.observation: .*takes the dict of MiniGrid"):
        compiled(wrapped)
    assert compiled({**wrapped, "observation": "dict"}).env.observation == "dict"
    bonus = {"type": "minigrid", "env_wrapper": ["minigrid.wrappers:PositionBonus"]}
    assert compiled(bonus).env.observation == "one_hot"


def test_the_dict_of_minigrid_has_text_for_its_wrappers_alone() -> None:
    pytest.importorskip("minigrid")
    for wrappers, keys in (
        ([], ["direction", "image"]),
        (["minigrid.wrappers:FullyObsWrapper"], ["direction", "image", "mission"]),
    ):
        given = {"type": "minigrid", "observation": "dict", "env_wrapper": wrappers}
        section = compiled(given).env
        env = EnvFactory(section, BuildContext())()
        assert sorted(env.observation_space.spaces) == keys
        env.close()


@pytest.mark.parametrize("form", ["CartPole-v1", "gymnasium:CartPole-v1", None])
def test_any_gymnasium_id_is_an_environment(form: str | None) -> None:
    chosen = {"type": form} if form else {"type": "gymnasium", "env_id": "CartPole-v1"}
    env = compiled({**chosen, "n_evaluator_episode": 3}).env
    registered = "cartpole" if form == "CartPole-v1" else "gymnasium"
    assert (env.type, env.env_id, env.stop_value) == (registered, "CartPole-v1", 475.0)
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
    ("env_id", "component"),
    [
        ("ALE/Seaquest-v5", "atari"),
        ("ALE/Pong-v5", "pong"),
        ("MinAtar/Freeway-v1", "minatar"),
        ("MiniGrid-DoorKey-5x5-v0", "minigrid"),
        ("dm_control/walker-walk-v0", "dm_control"),
        ("HalfCheetah-v5", "halfcheetah"),
        ("HumanoidStandup-v5", "gymnasium"),
    ],
)
def test_ids_of_other_packages_are_registered_on_demand(env_id: str, component: str) -> None:
    needs("hopper" if component == "gymnasium" else component)  # both need mujoco
    env = compiled({"type": env_id, "n_evaluator_episode": 1, "stop_value": 1}).env
    assert (env.type, env.env_id) == (component, env_id)
    made = env.build(None)
    assert made.spec.id == env_id
    made.close()


@pytest.mark.parametrize(
    ("module", "env_id", "extra"),
    [("ale_py", "ALE/Pong-v5", "atari"), ("mujoco", "Hopper-v5", "mujoco"),
     ("minigrid", "MiniGrid-Empty-5x5-v0", "minigrid"),
     ("minatar.gym", "MinAtar/Breakout-v1", "minatar"), ("Box2D", "LunarLander-v3", "box2d"),
     ("shimmy", "dm_control/cartpole-balance-v0", "dm_control")],
)  # fmt: skip
def test_a_missing_package_is_named_with_its_extra(module: str, env_id: str, extra: str) -> None:
    code = f"""
import sys
sys.modules["{module}"] = None
from dicore.errors import MissingDependencyError
from dicore_contrib_envs.gymnasium_env import GymnasiumConfig
cfg = GymnasiumConfig(env_id="{env_id}", n_evaluator_episode=1, stop_value=1)
try:
    cfg.build(None)
except MissingDependencyError as error:
    print(error, error.hint)
"""
    said = printed(code)
    assert f"env.env_id: '{env_id}' needs" in said
    assert f"pip install 'dicore-contrib-envs[{extra}]'" in said


@pytest.mark.parametrize(
    ("env_id", "said"),
    [
        ("CartPole-v7", "did you mean 'CartPole-v1'"),
        ("LunarLander-v2", "did you mean 'LunarLander-v3'"),
        ("PongNoFrameskip-v4", "write ALE/Pong-v5 env.repeat_action_probability=0"),
        ("Seaquest-ramDeterministic-v0", "write ALE/Seaquest-v5"),
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


def test_an_id_that_a_file_here_registers_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("crows.py").write_text("import gymnasium\nraise SystemExit\nregister('Crow-v0')\n")
    given = {"env": {"type": "gymnasium", "env_id": "Crow-v0"}, "policy": "dqn"}
    with pytest.raises(ConfigError, match=r"crows\.py registers it: dicore --plugin crows\.py"):
        compile_config(given)
    with Path("crows.py").open("a") as file:
        file.write("if __name__ == '__main__': pass\n")
    with pytest.raises(ConfigError, match=r"once that stands outside of if __name__"):
        compile_config(given)


def test_an_id_of_an_installed_package_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "birds").mkdir()
    (tmp_path / "birds/__init__.py").write_text(
        "import gymnasium\nraise SystemExit('it ran')\nregister(id=f'Sparrow{suffix}-v3')\n"
        "register('Crow-v0')\n"
    )
    info = tmp_path / "birds-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: birds\nVersion: 1.0\nRequires-Dist: gymnasium>=1\n"
    )
    (info / "RECORD").write_text("birds/__init__.py,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for env_id in ("Sparrow-v3", "Crow-v9"):
        with pytest.raises(ConfigError, match=f"no '{env_id}'; write birds:{env_id}"):
            compile_config({"env": env_id, "policy": "dqn"})
    with pytest.raises(ConfigError, match="no env named 'Owl-v0'"):
        compile_config({"env": "Owl-v0", "policy": "dqn"})


def test_a_former_version_is_told_once() -> None:
    tell_of_later.cache_clear()
    given = {"type": "gymnasium", "env_id": "CartPole-v0", "n_evaluator_episode": 3}
    env = compiled({**given, "stop_value": 1}).env
    with pytest.warns(ConfigWarning, match="CartPole-v0 is out of date: CartPole-v1") as told:
        made = [env.build(None), env.build(None)]
    assert len(told) == 1
    for each in made:
        each.close()


@pytest.mark.filterwarnings("ignore:.*out of date")
def test_a_version_of_a_simulator_that_is_gone_names_the_last_one() -> None:
    pytest.importorskip("mujoco")
    given = {"type": "gymnasium", "env_id": "Hopper-v2", "n_evaluator_episode": 3, "stop_value": 1}
    with pytest.raises(MissingDependencyError) as caught:
        compiled(given).env.build(None)
    assert caught.value.hint == "a later version: Hopper-v5"


@pytest.mark.parametrize(
    ("line", "why"),
    [("assert value.shape == ()", "AssertionError: assert value.shape == ()"),
     ("value.body_names", "AttributeError: 'numpy.ndarray' object has no attribute 'body_names'")],
)  # fmt: skip
def test_a_package_that_does_not_fit_another_one_is_named_with_its_versions(
    line: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As FetchReach-v4 of an older gymnasium-robotics beside a newer mujoco."""
    (tmp_path / "robo.py").write_text(
        "import gymnasium, numpy\n\n"
        f"def make():\n    value = numpy.zeros(1)\n    {line}\n\n"
        "gymnasium.register('Robo-v4', 'robo:make')\n"
    )
    info = tmp_path / "robo_arms-1.4.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: robo-arms\nVersion: 1.4\n"
        "Requires-Dist: numpy>=1\nRequires-Dist: nothing-1 ; extra == 'all'\n"
    )
    (info / "top_level.txt").write_text("robo\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    given = {"type": "gymnasium", "env_id": "robo:Robo-v4", "n_evaluator_episode": 3}
    with pytest.raises(EnvCreateError) as caught:
        compiled({**given, "stop_value": 1}).env.build(None)
    file = tmp_path / "robo.py"
    assert caught.value.message == (
        f"env.env_id: 'robo:Robo-v4' of robo-arms 1.4 could not be made: {why} ({file}:5, in make)"
    )
    version = np.__version__
    assert caught.value.hint.endswith(
        f"another version of it, or of what it needs: numpy {version}"
    )
    monkeypatch.setitem(gymnasium_env._FITS, "robo-arms 1.4", "; take numpy 1")
    with pytest.raises(EnvCreateError) as caught:
        compiled({**given, "stop_value": 1}).env.build(None)
    assert caught.value.hint.endswith(f" numpy {version}; take numpy 1")
    del sys.modules["robo"], gymnasium.registry["Robo-v4"]


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


@pytest.mark.parametrize(("word", "meant"), [("no", "false"), ("On", "true")])
def test_a_word_of_truth_is_not_taken_for_text(word: str, meant: str) -> None:
    env = compiled({"type": "cartpole", "make_kwargs": {"sutton_barto_reward": word}}).env
    with pytest.raises(
        ConfigError, match=rf"make_kwargs\.sutton_barto_reward: .* '{word}'"
    ) as told:
        env.build(None)
    assert told.value.hint == f"write env.make_kwargs.sutton_barto_reward={meant}"


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


def test_atari_ends_collected_episodes_at_a_lost_life() -> None:
    needs("breakout")
    lengths = {}
    for role in ("collector", "evaluator"):
        env = section("breakout", collector_env_num=1, evaluator_env_num=1)
        manager = make_env_manager(env, role, 0)
        manager.launch()
        done, steps, lives = False, 0, 5
        while not done:
            step = manager.step({0: steps % 2})[0]  # fire, do nothing
            done, lives, steps = step.done, step.info["lives"], steps + 1
        lengths[role] = (lives, steps)
        manager.close()
    assert lengths["collector"][0] == 4
    assert lengths["evaluator"][0] == 0
    assert lengths["evaluator"][1] > lengths["collector"][1]


SIMULATED = {"mujoco", "dm_control"}
SHOWN_ONLY = """
import gymnasium

class Shown(gymnasium.Env):
    metadata = {"render_modes": ["human"]}
    observation_space = action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, render_mode=None):
        assert render_mode in (None, *self.metadata["render_modes"])

gymnasium.register("Shown-v0", entry_point=Shown)
"""
RENDERED = [
    pytest.param(name, marks=pytest.mark.slow if env.needs in SIMULATED else ())
    for name, env in ENVS.items()
]


@pytest.mark.parametrize("name", RENDERED)
def test_envs_are_rendered_without_a_display(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    needs(name)
    for variable in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(variable, raising=False)
    env = section(name).with_pictures().build(None)
    try:
        env.reset(seed=0)
        env.step(env.action_space.sample())
        image = env.render()
        assert (image.dtype, image.shape[2]) == (np.uint8, 3)
        assert image.std() > 0
    finally:
        env.close()


def test_an_env_without_pictures_and_a_module_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evaluations make what a training made, from the same folder."""
    (tmp_path / "shown_only.py").write_text(SHOWN_ONLY)
    monkeypatch.setattr("sys.path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    env = GymnasiumConfig(
        type="gymnasium", env_id="shown_only:Shown-v0", n_evaluator_episode=1, stop_value=1.0
    )
    env.build(None).close()
    shown = env.with_pictures()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # gymnasium warns before
        with pytest.raises(UsageError, match="v0' has no render mode rgb_array; it has human"):
            shown.build(None)


def test_an_id_without_its_namespace_is_answered() -> None:
    needs("minatar")
    with pytest.raises(ConfigError, match="did you mean 'MinAtar/Breakout-v1'"):
        compiled({"type": "minatar", "env_id": "Breakout-v1"}).env.build(None)


def test_entry_points_of_gymnasium_register_ids(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SHOWN_ONLY.replace("gymnasium.register", "def register():\n    gymnasium.register")
    (tmp_path / "declared_lines.py").write_text(text.replace("Shown-v0", "lines/Shown-v0"))
    dist = tmp_path / "declared_lines-1.dist-info"
    dist.mkdir()
    (dist / "METADATA").write_text("Metadata-Version: 2.1\nName: declared-lines\nVersion: 1\n")
    (dist / "entry_points.txt").write_text("[gymnasium.envs]\nlines = declared_lines:register\n")
    with pytest.raises(ConfigError, match="no env named 'lines/Shown-v0'"):
        compiled({"type": "lines/Shown-v0", "n_evaluator_episode": 1, "stop_value": 1.0})
    monkeypatch.syspath_prepend(str(tmp_path))
    env = compiled({"type": "lines/Shown-v0", "n_evaluator_episode": 1, "stop_value": 1.0}).env
    assert (env.type, env.env_id) == ("gymnasium", "lines/Shown-v0")
    env.build(None).close()
    (dist / "entry_points.txt").write_text("[gymnasium.envs]\nwrong = declared_lines:absent\n")
    with pytest.raises(EnvCreateError, match="entry point wrong = declared_lines:absent of gymn"):
        compiled({"type": "wrong/Shown-v0", "n_evaluator_episode": 1, "stop_value": 1.0})


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


def test_configs_are_light() -> None:
    modules = {e.target.partition(":")[0] for e in default().entries() if e.name in ENVS}
    heavy = {"gymnasium", "numpy", "torch", "pygame", *(each.needs for each in ENVS.values())}
    code = f"import sys, {', '.join(sorted(modules))}\nprint(*({heavy} & sys.modules.keys()))"
    assert printed(code).split() == []


class Alone(gymnasium.Env[Any, Any]):
    """Notices other environments of the process within its calls."""

    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)
    inside: ClassVar[list[int]] = []
    most: ClassVar[list[int]] = []

    def _enter(self) -> Any:
        self.inside.append(1)
        self.most.append(len(self.inside))
        time.sleep(0.005)
        self.inside.pop()
        return np.int64(0)

    def reset(self, **kwargs: Any) -> Any:
        return self._enter(), {}

    def step(self, action: Any) -> Any:
        return self._enter(), 0.0, False, False, {}


@pytest.mark.parametrize("alone", [True, False])
def test_car_racing_draws_in_one_thread_at_a_time(alone: bool) -> None:
    needs("car_racing")
    with closing(section("car_racing").build(None)) as made:
        assert isinstance(made, OneAtATime)
    Alone.most.clear()
    make = (lambda: OneAtATime(Alone())) if alone else Alone
    with closing(ThreadEnvManager([make] * 4)) as manager:
        manager.launch()
        for _ in range(5):
            manager.step(manager.random_action())
    assert (max(Alone.most) == 1) is alone
