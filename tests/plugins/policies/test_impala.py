"""IMPALA: sequences with behaviour probabilities, the loss by V-trace, exact resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.data import Batch
from dicore.errors import ConfigError, SchemaError
from dicore_plugins.functional import log_prob_entropy, vtrace
from tests.plugins.policies.resuming import same_after_resume
from tests.plugins.policies.test_actor_critic import BOX, block_of, policy_of

LENGTH = 4


def impala(actions: Any, *options: str) -> Any:
    return policy_of("impala", actions, f"policy.collect.unroll_len={LENGTH}", *options)


def samples_of(policy: Any) -> Batch:
    block, tail, _ = block_of(policy, steps=2 * LENGTH)
    found: Batch = policy.collect_mode.get_train_sample(block, tail)
    return found


@pytest.mark.parametrize("actions", [spaces.Discrete(3), BOX], ids=["discrete", "box"])
def test_samples_are_sequences_that_share_no_step(actions: Any) -> None:
    policy = impala(actions)
    block, tail, next_obs = block_of(policy, steps=2 * LENGTH)
    samples = policy.collect_mode.get_train_sample(block, tail)
    assert samples["reward"].shape == (6, LENGTH)
    for name, column in (("reward", block["reward"]), ("next_obs", next_obs)):
        pieces = np.concatenate([column[:LENGTH], column[LENGTH:]], 1).swapaxes(0, 1)
        assert np.array_equal(samples[name], pieces)
    get = policy.collect_mode.get_attribute
    assert (get("sample_len"), get("sample_stride")) == (LENGTH, LENGTH)


@pytest.mark.parametrize(("ignore", "norm"), [(False, False), (True, False), (False, True)])
def test_an_update_equals_the_formula(ignore: bool, norm: bool) -> None:
    options = (f"policy.learn.ignore_done={ignore}", f"policy.learn.adv_norm={norm}")
    policy = impala(spaces.Discrete(3), *map(str.lower, options))
    samples = samples_of(policy)
    model = policy.get_attribute("model")
    with torch.no_grad():  # not the policy that acted
        for index, each in enumerate(model.parameters()):
            each.add_(torch.randn(each.shape, generator=torch.Generator().manual_seed(index)))
        batch = samples.to_torch()
        output = model(batch["obs"].reshape(-1, 2))
        log_prob, entropy = log_prob_entropy(output, batch["action"].reshape(-1))
        next_value = model(batch["next_obs"].reshape(-1, 2))["value"].reshape(-1, LENGTH)
        value = output["value"].reshape(-1, LENGTH)
        change = log_prob.reshape(-1, LENGTH) - batch["log_prob"]
        done = batch["done"] * (not ignore)
        wanted = vtrace(change, batch["reward"], value, next_value, done, batch["end"], gamma=0.99)
    assert change.abs().max() > 0.1
    advantage = wanted.advantage.reshape(-1)
    if norm:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    policy_loss = -(log_prob * advantage).mean()
    value_loss = (value - wanted.target).square().mean()
    (result,) = policy.learn_mode.forward(samples)
    torch.testing.assert_close(result["policy_loss"], policy_loss)
    torch.testing.assert_close(result["value_loss"], value_loss)
    total = policy_loss + 0.5 * value_loss - 0.01 * entropy.mean()
    torch.testing.assert_close(result["total_loss"], total)


@pytest.mark.parametrize("norm", ["false", "true"])
def test_a_resumed_run_equals_an_uninterrupted_one(norm: str, tmp_path: Path) -> None:
    options = [f"policy.model.obs_norm={norm}"]
    one, two = same_after_resume("impala", "cartpole", options, tmp_path, 512)
    assert all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("policy.on_policy=true", "on_policy: impala learns from a replay buffer"),
        ("policy.model.value_norm=true", "model.value_norm: impala"),
        ("policy.priority=true", "priority: impala draws no samples by priority"),
        ("policy.nstep=2", "nstep: impala uses longer returns"),
        ("policy.traj_len_inf=true", "traj_len_inf: impala learns from pieces of episodes"),
    ],
)
def test_options_that_contradict_each_other_are_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        impala(spaces.Discrete(3), override)


def test_single_steps_are_refused() -> None:
    policy = impala(spaces.Discrete(3))
    samples = samples_of(policy)
    steps = Batch({key: each[:, 0] for key, each in samples.items() if key != "env_id"})
    with pytest.raises(SchemaError, match=r"expected rewards \[B, T\], got \[6\]"):
        policy.learn_mode.forward(steps)
