"""Whole runs of dreamer: resumed to the last bit, and exported with their memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from dicore.data import EnvBatch
from dicore.run.random import seed_everything
from dicore_plugins.export.greedy_module import greedy_module
from dicore_plugins.policies import create_policy
from tests.plugins.policies.test_value_family import resumes_exactly

pytest.importorskip("dicore_contrib_envs")

MODEL = {"deter": 8, "units": 8, "groups": 3, "classes": 4}
TINY = [
    *(f"policy.model.{name}={size}" for name, size in MODEL.items()),
    *("policy.learn.horizon=3", "policy.learn.batch_size=4", "policy.learn.update_per_collect=1"),
    *("policy.other.replay_buffer.unroll_len=8", "policy.collect.n_sample=21"),
]


@pytest.mark.parametrize("env", ["cartpole", "pendulum"])
def test_a_resumed_run_equals_an_uninterrupted_one(env: str, tmp_path: Path) -> None:
    """It is stopped amid the episodes of three environments, whose latent states are kept."""
    resumes_exactly(tmp_path, env, "dreamer", (126, 210), *TINY, "env.collector_env_num=3")


@pytest.mark.parametrize("env", ["cartpole", "pendulum"])
def test_an_exported_network_acts_as_the_policy_with_its_memory(env: str) -> None:
    import gymnasium

    made = gymnasium.make({"cartpole": "CartPole-v1", "pendulum": "Pendulum-v1"}[env])
    seed_everything(0)
    policy = create_policy(
        {"type": "dreamer", "model": MODEL},
        observation_space=made.observation_space,
        action_space=made.action_space,
    )
    with torch.no_grad():
        for parameter in policy.get_attribute("model").parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))  # else all actions are about equal
    module, hidden = greedy_module(policy), torch.zeros(4, policy.get_attribute("model").state_size)
    policy.eval_mode.reset()
    shape = 4, *(made.observation_space.shape or ())
    rng, seen = np.random.default_rng(0), []
    for _ in range(5):
        obs = rng.standard_normal(shape).astype(np.float32)
        acted = EnvBatch.of(policy.eval_mode.forward(EnvBatch(np.arange(4), obs))).value["action"]
        action, hidden = module(torch.from_numpy(obs), hidden)
        np.testing.assert_allclose(action, acted, atol=1e-5)
        seen.append(acted)
    assert np.ptp(np.stack(seen)) > 0
