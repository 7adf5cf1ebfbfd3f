"""The world model "ensemble": exact dynamics are learned, elites, uncertainty, state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.data import Batch
from dicore.errors import ConfigError, UsageError
from dicore.run.random import seed_everything
from dicore_plugins.functional import gaussian_nll_error, soft_clamp
from dicore_plugins.world_models import EnsembleWorldModel, GaussianEnsemble

OBS = spaces.Box(-np.inf, np.inf, (2,), np.float32)
SMALL = {"ensemble_size": 3, "elite_size": 2, "hidden_size_list": [32], "learning_rate": 1e-2,
         "batch_size": 64, "max_epoch": 30, "patience": 10}  # fmt: skip


def made(action_space: Any = None, **options: Any) -> EnsembleWorldModel:
    seed_everything(0)
    actions = spaces.Discrete(3, start=1) if action_space is None else action_space
    return EnsembleWorldModel({**SMALL, **options}, observation_space=OBS, action_space=actions)


def samples(count: int = 600, noise: float = 0.0) -> Batch:
    """x' = x + 50 + a, the reward is 100 x_0, terminal where x_1 is above 1."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(count, 2)).astype(np.float32)
    action = rng.integers(1, 4, count)
    after = obs + 50 + action[:, None] + noise * rng.normal(size=(count, 2))
    columns = {"obs": obs, "action": action, "reward": 100 * obs[:, 0],
               "next_obs": after.astype(np.float32),
               "done": (obs[:, 1] > 1).astype(np.float32)}  # fmt: skip
    return Batch(columns, count)


def test_dynamics_rewards_and_terminations_are_learned() -> None:
    world, data = made(), samples()
    kept = data.copy()
    metrics = world.train(data)
    assert metrics["world_model_error"] < 0.05
    assert all(np.array_equal(data[key], kept[key]) for key in data.columns)
    after, reward, done = world.step(data["obs"], data["action"])
    assert after.dtype == reward.dtype == np.float32
    assert done.dtype == np.bool_
    assert np.abs(after - data["next_obs"]).mean() < 0.5
    assert np.abs(reward - data["reward"]).mean() < 20
    assert (done == (data["done"] > 0)).mean() > 0.87


def test_noise_is_learned_as_uncertainty() -> None:
    world = made()
    world.train(samples(2_000, noise=2.0))
    obs = np.zeros((2_000, 2), np.float32)
    after, _, _ = world.step(obs, np.full(2_000, 2))
    assert after.std(0) == pytest.approx([2, 2], rel=0.25)
    assert after.mean(0) == pytest.approx([52, 52], abs=0.5)


def test_what_never_terminated_does_not_terminate() -> None:
    world, data = made(max_epoch=1), samples(100)
    data["done"][...] = 0
    world.train(data)
    assert not world.step(np.zeros((2_000, 2), np.float32), np.full(2_000, 2))[2].any()


def test_training_is_due_every_so_many_env_steps() -> None:
    world = made(train_freq=250)
    assert [at for at in (1, 249, 250, 251, 499, 500, 900) if world.should_train(at)] == [
        250, 500, 900,
    ]  # fmt: skip


def test_it_continues_from_its_state() -> None:
    one, data = made(), samples(100)
    one.train(data)
    twin = made()
    twin.load_state_dict(one.state_dict())
    results = []
    for each in (one, twin):
        each._rng = np.random.default_rng(5)
        each.train(data)
        results.append(each.step(data["obs"], data["action"]))
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_it_cannot_predict_is_refused() -> None:
    with pytest.raises(ConfigError, match="predicts vectors of real numbers"):
        EnsembleWorldModel(
            SMALL, observation_space=spaces.Discrete(3), action_space=spaces.Discrete(2)
        )
    with pytest.raises(UsageError, match="at least 2 samples"):
        made().train(samples(1))


def test_each_network_sees_its_own_inputs() -> None:
    net = GaussianEnsemble(3, 4, 2, (8,))
    x = torch.randn(3, 5, 4)
    whole = net(x)
    for e in range(3):
        torch.testing.assert_close(net(x[e]).mean[e], whole.mean[e])
    assert (whole.log_var < 0.5).all()
    assert (whole.log_var > -10).all()


def test_likelihood_against_loops() -> None:
    generator = torch.Generator().manual_seed(0)
    mean, log_var, y = (torch.randn(2, 3, 4, generator=generator) for _ in range(3))
    total = sum(
        ((mean[e, b, d] - y[e, b, d]) ** 2 / log_var[e, b, d].exp() + log_var[e, b, d]).item()
        for e in range(2)
        for b in range(3)
        for d in range(4)
    )
    assert gaussian_nll_error(mean, log_var, y).item() == pytest.approx(total / 12, rel=1e-5)


def test_a_soft_clamp_is_the_identity_far_from_its_bounds() -> None:
    x = torch.tensor([-100.0, -5.0, 0.0, 100.0])
    found = soft_clamp(x, torch.tensor(-10.0), torch.tensor(10.0))
    assert found.tolist() == pytest.approx([-10, -5, 0, 10], abs=0.01)
