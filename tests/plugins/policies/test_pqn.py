"""PQN: lambda-returns of the values, minibatches without a target network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.errors import ConfigError, UsageError
from dicore_plugins.policies import PQNPolicy
from tests.plugins.policies.test_actor_critic import block_of, policy_of

GAMMA, LAMBDA = 0.9, 0.7
OPTIONS = (
    f"policy.discount_factor={GAMMA}",
    f"policy.learn.td_lambda={LAMBDA}",
    "policy.learn.batch_size=null",
    "policy.learn.epoch_per_collect=1",
)


@pytest.mark.parametrize("heads", [0, 2])
def test_an_update_equals_the_formula(heads: int) -> None:
    actions = spaces.MultiDiscrete([3, 3]) if heads else spaces.Discrete(3, start=4)
    policy = policy_of("pqn", actions, *OPTIONS)
    block, tail, next_obs = block_of(policy, steps=6)
    model, (steps, envs) = policy._model, block["end"].shape

    def values(obs: Any) -> list[Any]:
        with torch.no_grad():
            q = model.q(torch.as_tensor(np.asarray(obs)))
        return [each.double().numpy() for each in (q if isinstance(q, list) else [q])]

    after = np.array([values(row) for row in next_obs]).max(3).mean(1) if heads else None
    if after is None:
        after = np.array([values(row)[0].max(1) for row in next_obs])
    wanted = np.zeros((steps, envs))
    for env in range(envs):
        for t in reversed(range(steps)):
            mixed = after[t, env]
            if t + 1 < steps and not block["end"][t, env]:
                mixed = (1 - LAMBDA) * mixed + LAMBDA * wanted[t + 1, env]
            wanted[t, env] = block["reward"][t, env] + GAMMA * (1 - block["done"][t, env]) * mixed
    samples = policy.collect_mode.get_train_sample(block, tail)
    np.testing.assert_allclose(samples["target"], wanted.reshape(-1), rtol=1e-4, atol=1e-5)
    q = values(samples["obs"])
    index = samples["action"].reshape(len(samples), -1) - (0 if heads else 4)
    rows = np.arange(len(samples))
    errors = [q[head][rows, index[:, head]] - wanted.reshape(-1) for head in range(len(q))]
    (result,) = policy.learn_mode.forward(samples)
    np.testing.assert_allclose(result["total_loss"], np.square(errors).mean(), rtol=1e-4)
    np.testing.assert_allclose(result["td_error"], np.abs(errors).mean(), rtol=1e-4)


def test_it_makes_passes_in_minibatches_and_explores() -> None:
    policy = policy_of("pqn", spaces.Discrete(3), "policy.learn.batch_size=6")
    block, tail, _ = block_of(policy, steps=8)
    samples = policy.collect_mode.get_train_sample(block, tail)
    assert len(policy.learn_mode.forward(samples)) == 2 * len(samples) // 6
    setting = policy.command_mode.get_setting_collect
    assert setting({"envstep": 0})["eps"] > setting({"envstep": 10_000})["eps"]
    obs = {env: np.zeros(2, np.float32) for env in range(300)}
    counts = np.bincount(policy.collect_mode.forward(obs, eps=1.0).value["action"], minlength=3)
    assert (counts > 60).all()
    best = policy.collect_mode.forward(obs, eps=0.0).value["action"]
    assert (best == best[0]).all()
    with pytest.raises(UsageError, match="unknown argument 'sigma'"):
        policy.collect_mode.forward(obs, sigma=1.0)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"collect": {"n_episode": 2, "n_sample": None}}, "PQNConfig collects samples"),
        ({"on_policy": False}, "trains on samples of the current policy"),
        ({"nstep": 3}, "nstep: .*uses longer returns"),
    ],
)
def test_options_that_do_not_fit(options: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        PQNPolicy(options)


def test_a_network_of_another_shape_is_refused() -> None:
    config = policy_of("pqn", spaces.Discrete(3))._cfg
    with pytest.raises(UsageError, match=r"values \[2, 4\] for two .* expected values \[2, 3\]"):
        PQNPolicy(config, model=torch.nn.Linear(2, 4))
