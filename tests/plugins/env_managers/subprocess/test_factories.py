"""RELIABILITY A19: many workers do not import torch one by one."""

from __future__ import annotations

from functools import partial
from multiprocessing import forkserver
from typing import Any

import pytest
import torch

from dicore_plugins.env_managers.subprocess.factories import preload
from tests.plugins.env_managers.toy_envs import CountEnv


def imports_torch_itself() -> Any:
    import torch

    return torch


class InAModuleWithTorch:
    net = torch.nn.Linear


@pytest.mark.parametrize(
    ("make", "wanted"),
    [(imports_torch_itself, True), (partial(InAModuleWithTorch), True), (CountEnv, False)],
)
def test_the_fork_server_imports_torch_if_environments_use_it(
    make: Any, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    server: Any = forkserver.ForkServer()
    monkeypatch.setattr(forkserver, "_forkserver", server)
    preload([CountEnv, make])
    assert "gymnasium" in server._preload_modules
    assert ("torch" in server._preload_modules) == wanted
    server._preload_modules = chosen = ["mine"]
    preload([make])
    assert server._preload_modules is chosen
