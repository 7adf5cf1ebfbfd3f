"""Every policy can be trained with its defaults, or says what it needs beside them."""

from __future__ import annotations

import pytest

from dicore.errors import ConfigError
from dicore.hookspecs.manager import load_plugins
from dicore.run.launch import TrainRequest, build_pipeline, compile_for
from dicore_registry import default

ENVS = ("acrobot", "pendulum", "two_step_game")
NEEDED = ("pipeline.dataset: ", "policy.run: ", "policy.groups: ", "policy.model.others: ")
"""Of those that learn from data, the expert, groups, and what tells an agent of others."""


def problems(policy: str, env: str) -> list[str]:
    """Returns what is wrong with a config of both, without the preset that they may have."""
    config = {"env": {"type": env, "collector_env_num": 8}, "policy": {"type": policy}}
    request = TrainRequest(config=config)
    plugins = load_plugins()
    try:
        build_pipeline(compile_for(request, None, plugins)[0], plugins)
    except ConfigError as error:
        return [*map(str, error.problems)]
    return []


@pytest.mark.parametrize("policy", [each.name for each in default().entries("policy")])
def test_the_defaults_can_be_trained(policy: str) -> None:
    found = {env: problems(policy, env) for env in ENVS}
    fits = [told for told in found.values() if not any("policy.type: " in each for each in told)]
    assert not fits or any(all(each.startswith(NEEDED) for each in told) for told in fits), found
