"""PPO from a replay buffer: samples with advantages, one update per batch, exact resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.errors import ConfigError
from tests.plugins.policies.resuming import same_after_resume
from tests.plugins.policies.test_actor_critic import BOX, policy_of, samples_of
from tests.plugins.policies.test_ppo import DEFAULTS, moved, reference


@pytest.mark.parametrize("actions", [spaces.Discrete(3), BOX], ids=["discrete", "box"])
def test_an_update_equals_that_of_ppo(actions: Any) -> None:
    policy = policy_of("ppo_offpolicy", actions)
    samples = samples_of(policy, steps=40)
    twin = policy_of("ppo", actions)
    for key in ("log_prob", "value", "advantage", "target"):
        np.testing.assert_array_equal(samples[key], samples_of(twin, steps=40)[key])
    wanted = reference(moved(policy), samples, DEFAULTS)
    (result,) = policy.learn_mode.forward(samples)
    for name, value in wanted.items():
        assert float(result[name]) == pytest.approx(value, rel=1e-4, abs=1e-5), name


def test_it_needs_a_buffer() -> None:
    policy = policy_of("ppo_offpolicy", spaces.Discrete(3))
    assert not policy.get_attribute("on_policy")


@pytest.mark.parametrize("env", ["cartpole", "pendulum"])
def test_a_resumed_run_equals_an_uninterrupted_one(env: str, tmp_path: Path) -> None:
    options = ["policy.collect.n_sample=64", "policy.learn.update_per_collect=5"]
    one, two = same_after_resume("ppo_offpolicy", env, options, tmp_path, 256)
    assert all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("policy.on_policy=true", "on_policy: ppo_offpolicy learns from a replay buffer"),
        ("policy.collect.unroll_len=2", "unroll_len: ppo_offpolicy learns from single steps"),
        ("policy.learn.batch_size=null", "batch_size: missing"),
        ("policy.priority=true", "priority: ppo_offpolicy draws no samples by priority"),
    ],
)
def test_options_that_contradict_each_other_are_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        policy_of("ppo_offpolicy", spaces.Discrete(3), override)
