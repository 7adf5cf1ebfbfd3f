"""The operator and the target."""

import math

import pytest
import torch
from mellow_dqn.policy import MellowDQNPolicy, mellowmax

from dicore.data import Batch
from dicore_plugins.policies import q_values

Q = torch.tensor([[1.0, 2.0, 4.0], [0.0, 0.0, 0.0]])


def test_it_lies_between_the_mean_and_the_maximum() -> None:
    assert torch.allclose(mellowmax(Q, 0.0), Q.mean(1))
    assert torch.allclose(mellowmax(Q, 1e-3), Q.mean(1), atol=1e-2)
    assert torch.allclose(mellowmax(Q, 1e3), Q.amax(1), atol=1e-2)
    expected = math.log((math.e + math.e**2 + math.e**4) / 3)
    assert mellowmax(Q, 1.0)[0] == pytest.approx(expected)


def test_actions_that_are_not_allowed_do_not_count() -> None:
    least = torch.finfo(Q.dtype).min
    masked = torch.tensor([[1.0, 2.0, least]])
    for omega in (0.0, 5.0):
        assert torch.allclose(mellowmax(masked, omega), mellowmax(Q[:1, :2], omega))


def test_the_target_is_that_of_the_equation() -> None:
    model = {"obs_shape": 4, "action_shape": 3}
    options = {"discount_factor": 0.9, "model": model, "learn": {"omega": 2.0}}
    policy = MellowDQNPolicy(options)
    batch = Batch(
        {
            "obs": torch.randn(5, 4),
            "next_obs": torch.randn(5, 4),
            "action": torch.zeros(5, dtype=torch.int64),
            "reward": torch.arange(5.0),
            "done": torch.tensor([0.0, 0.0, 1.0, 0.0, 1.0]),
        }
    )
    q = q_values(policy._target_model, batch["next_obs"])
    expected = batch["reward"] + 0.9 * (1 - batch["done"]) * (2 * q).exp().mean(1).log() / 2
    assert torch.allclose(policy._target(batch), expected, atol=1e-5)
