"""A small compiled config, and a task that runs for the length of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dicore.config import bind, compile_config
from dicore.interfaces.env import EnvSpec
from dicore.run.env_factory import make_env_manager
from dicore.run.random import seed_everything
from dicore.task import OnlineRLContext, task

SMALL: dict[str, Any] = {
    "env": {
        "type": "cartpole",
        "collector_env_num": 4,
        "evaluator_env_num": 2,
        "n_evaluator_episode": 2,
    },
    "policy": {
        "type": "dqn",
        "model": {"encoder_hidden_size_list": [8]},
        "learn": {"batch_size": 16, "update_per_collect": 3, "learner": {"hook": []}},
        "collect": {"n_sample": 10},
        "eval": {"evaluator": {"eval_freq": 5}},
    },
}

Parts = tuple[Any, Any, Any]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Parts]]:
    """Makes (config, collecting manager, evaluating manager); overrides as on a command line."""
    managers: list[Any] = []

    def build(*overrides: str) -> Parts:
        seed_everything(0)
        compiled = compile_config(
            SMALL, seed=0, overrides=[f"exp_name={tmp_path / 'exp'}", *overrides]
        )
        env = compiled.cfg.env
        pair = [make_env_manager(env, role, 0) for role in ("collector", "evaluator")]
        managers.extend(pair)
        cfg = bind(compiled, EnvSpec.of(pair[0])).cfg
        return cfg, pair[0], pair[1]

    yield build
    for manager in managers:
        manager.close()


@pytest.fixture
def running() -> Iterator[Any]:
    """The task, started with an online context."""
    with task.start(ctx=OnlineRLContext()):
        yield task
