"""Environments of gym and PettingZoo by id: the same data in every manager."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dicore.config import compile_config
from dicore.run.env_factory import make_env_manager
from dicore.testing.compare import difference

ENVS: dict[str, Any] = {"gym:CartPole-v1": 1, "pettingzoo:classic.rps_v2": np.array([0, 2])}
"""Ids, with an action."""


def told(env: str, manager: str) -> list[Any]:
    cfg = compile_config({
        "env": {"type": env, "collector_env_num": 2, "n_evaluator_episode": 1, "stop_value": 1.0,
                "manager": {"type": manager}, "env_wrapper": ["eval_episode_return"]},
        "policy": {"type": "random", "collect": {"n_sample": 8}},
    })  # fmt: skip
    made = make_env_manager(cfg.env, "collector", 3)
    made.launch()
    found = []
    for _ in range(20):
        value = made.step(dict.fromkeys(range(2), ENVS[env])).value
        returns = [info["eval_episode_return"] for info in value.info if "episode_length" in info]
        found.append([value.obs, value.reward, value.terminated, value.truncated, returns])
    made.close()
    return found


@pytest.mark.parametrize("env", ENVS)
def test_every_manager_gives_the_same_data(env: str) -> None:
    pytest.importorskip(env.partition(":")[0])
    base = told(env, "base")
    assert any(returns for *_, returns in base)
    for manager in ("thread", "sync_subprocess"):
        assert not difference(told(env, manager), base), manager
