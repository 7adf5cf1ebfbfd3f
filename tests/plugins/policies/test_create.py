"""Policies by their registered names."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from dicore.config import bind, compile_config
from dicore.errors import ConfigError
from dicore.interfaces.env import EnvSpec
from dicore_plugins.policies import create_policy, get_policy_cls
from dicore_registry import default
from dicore_registry.errors import UnknownComponentError

OBS = spaces.Box(-1, 1, (4,), np.float32)
SPACES = {"observation_space": OBS, "action_space": spaces.Discrete(3)}


@pytest.mark.parametrize("name", [each.name for each in default().entries("policy")])
def test_every_policy_tells_its_class(name: str) -> None:
    found = get_policy_cls({"type": name})
    assert hasattr(found, "eval_mode")
    if name not in ("expert", "random"):
        section = default().resolve("policy", name).target
        assert issubclass(section, found.config_class)


@pytest.mark.parametrize("cfg", ["dqn", {"type": "dqn"}, {"type": "dqn", "model": "dqn"}])
def test_shapes_follow_from_the_spaces(cfg: Any) -> None:
    policy = create_policy(cfg, **SPACES, enable_field=["eval"])
    out = policy.eval_mode.forward({7: np.zeros(4, np.float32)})
    assert out[7]["action"] in range(3)
    assert type(policy) is get_policy_cls(cfg)


def test_a_compiled_section_is_built_as_it_is() -> None:
    compiled = compile_config({"env": {"type": "cartpole"}, "policy": {"type": "ppo"}})
    bound = bind(compiled, EnvSpec(*SPACES.values())).cfg.policy
    assert create_policy(bound).get_attribute("cfg") is bound
    assert create_policy(compiled.cfg.policy, **SPACES).get_attribute("cfg").model == bound.model


@pytest.mark.parametrize(
    ("cfg", "error", "message"),
    [
        ({}, ConfigError, "policy.type: must be given"),
        ("rainbov", UnknownComponentError, "did you mean 'rainbow'"),
        ({"type": "dqn", "learn": {"batch_sze": 3}}, ConfigError, "did you mean 'batch_size'"),
        ({"type": "dqn", "model": {"obs_shape": 5}}, ConfigError, "expected 4, as the environment"),
        ("sac", ConfigError, "needs bounded real numbers as actions"),
    ],
)
def test_mistakes(cfg: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        create_policy(cfg, **SPACES)


def test_with_their_defaults_no_sample_is_dropped() -> None:
    """A collect is of whole steps of all environments, whatever their number."""
    found = {}
    for entry in default().entries("policy"):
        env = {"type": "cartpole", "n_evaluator_episode": 1, "collector_env_num": 6}
        with contextlib.suppress(ConfigError):  # an option has no default
            cfg = compile_config({"env": env, "policy": {"type": entry.name}}).cfg
            found[entry.name] = cfg.policy.collect.get("n_sample")
    assert {name for name, size in found.items() if size == 6} >= {"redq", "droq", "simba", "rlpd"}
    assert not {name for name, size in found.items() if size is not None and size < 6}
