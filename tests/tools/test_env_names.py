"""One resolver of environments: every entrance understands the same spellings in the same way."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import pytest

pytest.importorskip("dicore_contrib_envs")
pytest.importorskip("torch")

from dicore import Agent
from dicore.cli import main
from dicore.config import compile_config
from dicore.errors import ConfigError, DicoreError
from dicore.run.request import TrainRequest, compile_request, preset_of
from dicore_tools.commands.check_env import section_of

ENV = """
import gymnasium, numpy as np
import side_by_side

class Hill(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, height: int = 3) -> None:
        self.height = height * side_by_side.SCALE

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, True, False, {}

gymnasium.register("Hill-v0", lambda **_: Hill(), max_episode_steps=9)
gymnasium.register("Slope", lambda **_: Hill(), max_episode_steps=9)
"""


def _tried(file: str, why: str) -> str:
    return (
        f"env.type: no env '{file}'; tried in order: a registered name (dicore list env), an id of"
        f" gymnasium (another package's: PACKAGE:{file}), a class of a file ({why})"
    )


SPELLINGS: dict[str, Any] = {
    **{name: (name, None) for name in (
        "cartpole", "pendulum", "mountain_car_continuous", "lunarlander_continuous",
        "cartpole_pomdp", "dicore-contrib-envs/cartpole",
    )},
    "CartPole": ("cartpole", None),
    "mountain-car": ("mountain_car", None),
    "CartPole-v1": ("cartpole", "CartPole-v1"),
    "Pendulum-v1": ("pendulum", "Pendulum-v1"),
    "Acrobot-v1": ("acrobot", "Acrobot-v1"),
    "MountainCar-v0": ("mountain_car", "MountainCar-v0"),
    "MountainCarContinuous-v0": ("mountain_car_continuous", "MountainCarContinuous-v0"),
    "LunarLander-v3": ("lunarlander", "LunarLander-v3"),
    "LunarLanderContinuous-v3": ("lunarlander_continuous", "LunarLanderContinuous-v3"),
    "CarRacing-v3": ("car_racing", "CarRacing-v3"),
    "HalfCheetah-v5": ("halfcheetah", "HalfCheetah-v5"),
    "FrozenLake-v1": ("frozenlake", "FrozenLake-v1"),
    "FrozenLake8x8-v1": ("gymnasium", "FrozenLake8x8-v1"),
    "CartPole-v0": ("gymnasium", "CartPole-v0"),
    "BipedalWalkerHardcore-v3": ("gymnasium", "BipedalWalkerHardcore-v3"),
    "gymnasium:CartPole-v1": ("gymnasium", "CartPole-v1"),
    "gymnasium:flat_module:Hill-v0": ("gymnasium", "flat_module:Hill-v0"),
    "pettingzoo:classic.rps_v2": ("pettingzoo", "classic.rps_v2"),
    "flat_module:Hill-v0": ("gymnasium", "flat_module:Hill-v0"),
    "flat_module:Slope": ("gymnasium", "flat_module:Slope"),
    "flat_module:Hill": ("flat_module:Hill", None),
    "folder.inner:Hill": ("folder.inner:Hill", None),
    "folder.inner:Hill-v0": ("gymnasium", "folder.inner:Hill-v0"),
    "dicore_contrib_envs.tasks:BitFlip-v0": ("bit_flip", "dicore_contrib_envs.tasks:BitFlip-v0"),
    "./flat_module.py:Hill": ("./flat_module.py:Hill", None),
    "flat_module.py:Hill": ("flat_module.py:Hill", None),
    "folder/inner.py:Hill": ("folder/inner.py:Hill", None),
    "cartpol": "env.type: no env named 'cartpol'; did you mean 'cartpole'?",
    "Hil-v0": "env.type: no env named 'Hil-v0'; ",
    "gym:CartPole-v1": ("gym", "CartPole-v1"),
    "taxi:Taxi-v4x": ("taxi", "Taxi-v4x"),
    "flat_module:Hil-v0": "env.type: no env 'flat_module:Hil-v0'; tried in order: ENV:ID ('flat_mo",
    "flat_module:Hil": "env.type: no env 'flat_module:Hil'; tried in order: ENV:ID ('flat_module' ",
    "nowhere:Hill-v0": "env.type: no env 'nowhere:Hill-v0'; tried in order: ENV:ID ('nowhere' is ",
    "./flat_module.py:Hil": "env.type: './flat_module.py' has no attribute 'Hil'; did you mean",
    "folder.inner": "env.type: no env named 'folder.inner'; it is a module that is here: for a cla",
    "flat_module.py::Hill": "env.type: flat_module.py is here: for a class of it, write flat_mod",
    "./flat_module:Hill": "env.type: ./flat_module.py is here: for a class of it, write ./flat_m",
    "./flat_module.py.Hill": "env.type: no env named './flat_module.py.Hill'; ./flat_mo",
    "./flat_module.py": ("./flat_module.py:Hill", None),
    "two.py": _tried("two.py", "write two.py:Hill or two.py:Other"),
    "none.py": _tried("none.py", "none.py: No such file or directory"),
    "odd.py": _tried("odd.py", "odd.py: line 1: invalid syntax"),
    "./nowhere.py:Hill": "env.type: no file './nowhere.py' in ",
    "nn_config:Hill": "env.type: env 'nn_config:Hill' failed to import nn_config: RuntimeError: b",
}  # fmt: skip


@pytest.fixture(autouse=True)
def modules(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    for env_id in ("Hill-v0", "Slope"):
        monkeypatch.setitem(gymnasium.registry, env_id, None)
        gymnasium.registry.pop(env_id)
    for name in ("flat_module", "side_by_side", "folder", "folder.inner", "nn_config"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    Path("folder").mkdir()
    Path("flat_module.py").write_text(ENV)
    Path("folder/inner.py").write_text(ENV)
    for place in (".", "folder"):
        Path(place, "side_by_side.py").write_text("SCALE = 2\n")
    Path("nn_config.py").write_text("raise RuntimeError('broken')\n")
    Path("two.py").write_text(f"{ENV}\nclass Other(gymnasium.Env):\n    pass\n")
    Path("odd.py").write_text("def : x\n")


def by_command_line(text: str, capsys: pytest.CaptureFixture[str]) -> Any:
    code = main(["config", "show", "-e", text, "-p", "random", "--json"])
    out, err = capsys.readouterr()
    if code:
        raise ConfigError(err.splitlines()[0].removeprefix("error: "))
    return json.loads(out)["env"]


def by_python(text: str, _: Any) -> Any:
    return compile_request(TrainRequest(config={"env": text, "policy": "random"})).env


def by_agent(text: str, _: Any) -> Any:
    return Agent(text, policy="random").config.env


def by_check(text: str, _: Any) -> Any:
    return section_of(text)


def by_yaml(text: str, _: Any) -> Any:
    Path("c.yaml").write_text(f"env: '{text}'\npolicy: random\n")
    return compile_request(TrainRequest(config="c.yaml")).env


DOORS = (by_command_line, by_python, by_agent, by_check, by_yaml)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.__name__)
def test_each_spelling_means_the_same_at_every_door(
    door: Callable[[str, Any], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(SPELLINGS) >= 40
    for text, wanted in SPELLINGS.items():
        if isinstance(wanted, str):
            with pytest.raises(DicoreError) as caught:
                door(text, capsys)
            problems = getattr(caught.value, "problems", (caught.value.message,))
            assert problems[0].startswith(wanted), text
            continue
        env = door(text, capsys)
        found = env["type"], env["env_id"] if wanted[1] else None
        assert found == wanted, text


@pytest.mark.parametrize("text", ["CartPole-v1", "uphill", "json", "./flat_module.py:Hill"])
def test_an_environment_is_checked_by_what_trains_it(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["check", text])
    err = capsys.readouterr().err
    if text in ("uphill", "json"):
        assert code == 2
        assert err.startswith(f"error: env.type: no env named '{text}'; ")
        assert f"no installed package '{text}' provides components" in err
    else:
        assert code == 0, err


@pytest.mark.parametrize(
    ("env", "policy", "preset"),
    [
        ("Pendulum-v1", "ppo", "pendulum_ppo"),
        ("pendulum", "ppo", "pendulum_ppo"),
        ("CartPole-v1", "dqn", "cartpole_dqn"),
        ("CartPole-v1", "DQN", "cartpole_DQN"),
        ("LunarLander-v3", "ppo", "lunarlander_ppo"),
        ("HalfCheetah-v5", "sac", "halfcheetah_sac"),
        ("MountainCarContinuous-v0", "sac", "mountain_car_continuous_sac"),
        ("CarRacing-v3", "ppo", "car_racing_ppo"),
        ("MinAtar/Asterix-v1", "ppo", "minatar_ppo"),
        ("LunarLander-v3", "sac", None),
        ("CartPole-v0", "dqn", None),
        ("gymnasium:CartPole-v1", "dqn", None),
        ("CartPole-v1", "td3", None),
        ("CartPole-v1", "./own.py:Own", None),
        ("nowhere:Hill-v0", "dqn", None),
    ],
)
def test_an_id_has_the_preset_of_its_name(env: str, policy: str, preset: str | None) -> None:
    assert preset_of(env, policy) == preset


def test_the_preset_of_an_id_is_used_wherever_no_more_than_names_are_given() -> None:
    Path("c.yaml").write_text("env: Pendulum-v1\npolicy: ppo\n")
    named = compile_request(TrainRequest(env="pendulum", policy="ppo")).cfg
    for cfg in (
        compile_request(TrainRequest(env="Pendulum-v1", policy="ppo")).cfg,
        compile_request(TrainRequest(config="c.yaml")).cfg,
        Agent("Pendulum-v1", policy="ppo").config.cfg,
    ):
        assert (cfg.policy, cfg.env) == (named.policy, named.env)
    plain = compile_request(TrainRequest(env="Pendulum-v1", policy="ppo", preset=False))
    assert plain.policy != named.policy
    more = {"env": "Pendulum-v1", "policy": {"type": "ppo", "nstep": 1}}
    assert compile_request(TrainRequest(config=more)).policy == plain.policy
    with pytest.raises(ConfigError, match="n_evaluator_episode"):
        compile_config({"env": {"type": "gymnasium", "env_id": "Pendulum-v1"}, "policy": "ppo"})
