"""RELIABILITY A19: many workers do not import torch one by one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from multiprocessing import forkserver
from typing import Any

import gymnasium
import pytest
import torch

from dicore.config import compile_config
from dicore.run.env_factory import BuildContext, EnvFactory
from dicore_contrib_envs.classic_control import CartPoleConfig
from dicore_plugins.env_managers.subprocess.factories import preload
from tests.plugins.env_managers.toy_envs import CountEnv


def imports_torch_itself() -> Any:
    import torch

    return torch


class InAModuleWithTorch(CountEnv):
    net = torch.nn.Linear


class WrapperInAModuleWithTorch(gymnasium.Wrapper[Any, Any, Any, Any]):
    pass


class ConfigInAModuleWithTorch(CartPoleConfig):
    """Its environment needs no torch; its module has it."""


def by_name(env: Any) -> EnvFactory:
    return EnvFactory(compile_config({"env": env, "policy": "dqn"}).env, BuildContext())


CARTPOLE = {"type": "cartpole"}
ENDS = {"n_evaluator_episode": 1, "stop_value": 1.0}
FACTORIES: dict[str, Callable[[], tuple[Any, bool]]] = {
    "imports it itself": lambda: (imports_torch_itself, True),
    "its module does": lambda: (partial(InAModuleWithTorch), True),
    "does not": lambda: (CountEnv, False),
    "a registered class does": lambda: (
        by_name({"type": f"{__file__}:InAModuleWithTorch", **ENDS}),
        True,
    ),
    "a wrapper does": lambda: (
        by_name({**CARTPOLE, "env_wrapper": [f"{__file__}:WrapperInAModuleWithTorch"]}),
        True,
    ),
    "a config class does": lambda: (EnvFactory(ConfigInAModuleWithTorch(), BuildContext()), True),
    "no component does": lambda: (
        by_name({"type": "cartpole", "env_wrapper": ["clip_reward"]}),
        False,
    ),
}


@pytest.mark.parametrize("factory", FACTORIES)
def test_the_fork_server_imports_torch_if_environments_use_it(
    factory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, wanted = FACTORIES[factory]()
    server: Any = forkserver.ForkServer()
    monkeypatch.setattr(forkserver, "_forkserver", server)
    preload([CountEnv, make])
    assert "gymnasium" in server._preload_modules
    assert ("torch" in server._preload_modules) == wanted
    server._preload_modules = chosen = ["mine"]
    preload([make])
    assert server._preload_modules is chosen
