"""PDEIL: densities and rewards by loops, what it refuses, exact resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.distributions import MultivariateNormal

from dicore.data import Batch
from dicore.errors import ConfigError, NonFiniteError, SchemaError, UsageError
from dicore.run.launch import launch
from dicore_contrib import PDEIL, Gaussian
from tests.plugins.policies.resuming import same_after_resume
from tests.plugins.reward_models.test_training import steps

OBS = spaces.Box(-np.inf, np.inf, (3,), np.float32)
CHOICE, BOX = spaces.Discrete(3, start=5), spaces.Box(-2, 2, (2,), np.float32)

_MIX = np.array([[1, 0.5, 0], [0, 1, -0.5], [0, 0, 2]])


def samples(action_space: Any, seed: int, count: int = 60, shift: float = 0.0) -> Batch:
    rng = np.random.default_rng(seed)
    obs = (rng.standard_normal((count, 3)) @ _MIX + shift).astype(np.float32)
    if isinstance(action_space, spaces.Discrete):
        action: Any = 5 + (obs[:, 0] > 0).astype(np.int64)  # the last action is never taken
    else:
        action = (obs[:, :2] * 0.3 + 0.1 * rng.standard_normal((count, 2))).astype(np.float32)
    reward = np.zeros(count, np.float32)
    return Batch({"obs": obs, "action": action, "reward": reward}, count)


def made(action_space: Any, **options: Any) -> PDEIL:
    model = PDEIL({"limit": 1e9, **options}, observation_space=OBS, action_space=action_space)
    model.load_expert_data(samples(action_space, 1))
    return model


def normal(rows: Any, ridge: float = 1e-3) -> MultivariateNormal:
    rows = torch.as_tensor(np.asarray(rows), dtype=torch.float64)
    covariance = torch.cov(rows.T, correction=0) + ridge * torch.eye(rows.shape[1])
    return MultivariateNormal(rows.mean(0), covariance)


def scaled(like: Any, rows: Any) -> Any:
    """Normalises rows by the mean and the standard deviation of others."""
    like, rows = np.asarray(like, np.float64), np.asarray(rows, np.float64)
    return (rows - like.mean(0)) / np.sqrt(like.var(0) + 1e-8)


def test_a_density_is_that_of_the_normal_distribution() -> None:
    rows = np.random.default_rng(0).standard_normal((40, 4)) * (1, 2, 3, 4)
    found = Gaussian.fitted(rows, 0.1).log_prob(rows[:7])
    wanted = normal(rows, 0.1).log_prob(torch.from_numpy(rows[:7])).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-9)


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("space", [CHOICE, BOX])
def test_rewards_are_ratios_of_densities_by_loops(space: Any, trained: bool) -> None:
    model, alpha = made(space, alpha=0.3), 0.3
    expert, agent, data = samples(space, 1), samples(space, 2, shift=1.0), samples(space, 3, 20)
    if trained:
        model.collect_data(agent)
        model.train()
    states = scaled(expert["obs"], expert["obs"])
    of_expert, rows = normal(states), scaled(expert["obs"], data["obs"])
    of_agent = normal(scaled(expert["obs"], agent["obs"])) if trained else of_expert
    found = model.estimate(data)["reward"]
    for row in range(20):
        x = torch.from_numpy(rows[row])
        rho_e, rho_u = (float(each.log_prob(x).exp()) for each in (of_expert, of_agent))
        if space is BOX:
            both = [np.concatenate([each["obs"], each["action"]], 1) for each in (expert, data)]
            pairs = normal(scaled(both[0], both[0]))
            top = float(pairs.log_prob(torch.from_numpy(scaled(both[0], both[1])[row])).exp())
        else:
            masses = []
            for action in (5, 6):
                chosen = states[expert["action"] == action]
                density = float(normal(chosen).log_prob(x).exp())
                masses.append(density * len(chosen) / len(states))
            top = rho_e * masses[data["action"][row] - 5] / sum(masses)
        wanted = top / (alpha * rho_e + (1 - alpha) * rho_u)
        assert found[row] == pytest.approx(wanted, rel=2e-3), row


def test_an_action_that_the_expert_never_takes_is_worth_nothing() -> None:
    model, data = made(CHOICE), samples(CHOICE, 3, 20)
    data.columns["action"][:] = 7
    assert (model.estimate(data)["reward"] == 0).all()


@pytest.mark.parametrize("space", [CHOICE, BOX])
def test_the_expert_is_worth_more_than_others_and_rewards_are_bounded(space: Any) -> None:
    model = made(space, limit=2.0)
    worse = samples(space, 2, shift=3.0)
    model.collect_data(worse)
    model.train()
    good, bad = (model.estimate(each)["reward"] for each in (samples(space, 1), worse))
    assert good.mean() > 3 * bad.mean()
    assert max(good.max(), bad.max()) <= 2.0


def test_the_newest_states_are_the_agents() -> None:
    model, other = made(BOX, replay_buffer_size=10), made(BOX, replay_buffer_size=10)
    for each in (samples(BOX, 4, 30), samples(BOX, 5, 4), samples(BOX, 6, 6)):
        model.collect_data(each)
    for each in (samples(BOX, 5, 4), samples(BOX, 6, 6)):
        other.collect_data(each)
    rewards = []
    for each in (model, other):
        each.train()
        rewards.append(each.estimate(samples(BOX, 7))["reward"])
    assert np.array_equal(*rewards)


def test_tensors_stay_tensors() -> None:
    model, data = made(BOX), samples(BOX, 3)
    found = model.estimate(data.to_torch())["reward"]
    assert torch.equal(found, torch.from_numpy(model.estimate(data)["reward"]))


@pytest.mark.parametrize(
    ("obs", "action", "word"),
    [
        (spaces.Box(0, 255, (3, 64, 64), np.uint8), CHOICE, "images"),
        (OBS, spaces.MultiDiscrete([2, 2]), "one discrete action"),
    ],
)
def test_spaces_that_it_does_not_take_are_refused(obs: Any, action: Any, word: str) -> None:
    with pytest.raises(UsageError, match=word):
        PDEIL(observation_space=obs, action_space=action)


def test_bad_samples_are_one_error_each(tmp_path: Path) -> None:
    model, data = made(BOX), samples(BOX, 3)
    with pytest.raises(SchemaError, match="'action'"):
        model.load_expert_data(Batch({"obs": data["obs"]}, len(data)))
    with pytest.raises(NonFiniteError):
        model.load_expert_data(Batch({**data.columns, "obs": data["obs"] * np.nan}, len(data)))
    with pytest.raises(SchemaError, match="'obs'"):
        model.collect_data(Batch({"action": data["action"]}, len(data)))
    several = Batch({**data.columns, "reward": np.zeros((60, 2), np.float32)}, 60)
    with pytest.raises(UsageError, match="one reward"):
        model.estimate(several)
    with pytest.raises(UsageError, match="no expert data"):
        PDEIL(observation_space=OBS, action_space=BOX).estimate(data)
    with pytest.raises(ConfigError, match="dicore collect"):
        launch(
            env="cartpole", policy="ppo", exp_name=str(tmp_path / "run"), max_env_step=10,
            overrides=["policy.reward_model=pdeil"],
        )  # fmt: skip
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    options = [
        "policy.reward_model=pdeil", "policy.reward_model.expert.type=npz",
        f"policy.reward_model.expert.path={steps(tmp_path)}", "policy.collect.n_sample=32",
        "policy.learn.batch_size=32", "policy.learn.epoch_per_collect=1",
        "policy.reward_model.replay_buffer_size=40", "env.collector_env_num=2",
    ]  # fmt: skip
    one, two = same_after_resume("ppo", "cartpole", options, tmp_path, 192)
    assert all(torch.equal(one[key], two[key]) for key in one)
