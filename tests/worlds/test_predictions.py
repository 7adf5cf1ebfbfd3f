"""Open-loop predictions: only the context is looked at, the actions matter, and units are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dicore.data import Batch
from dicore.errors import UsageError
from dicore.run.random import seed_everything
from dicore_worlds import DreamerModelConfig, DreamerNet, DreamerPolicy, open_loop

MODEL: dict[str, Any] = {"deter": 16, "units": 16, "groups": 4, "classes": 4, "cnn_depth": 2}


def net(obs_shape: Any) -> DreamerNet:
    seed_everything(0)
    made = DreamerModelConfig(obs_shape=obs_shape, action_shape=2, **MODEL).build(None)
    assert isinstance(made, DreamerNet)
    return made


def predicted(model: DreamerNet, obs: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    return open_loop(model, obs, action, 2)


def test_only_the_context_and_the_actions_matter() -> None:
    model, obs, action = net(3), torch.randn(4, 6, 3), torch.rand(4, 6, 2)
    found = predicted(model, obs, action)
    assert found.shape == (4, 4, 3)
    later, first = obs.clone(), obs.clone()
    later[:, 2:] = 9
    first[:, 1] = 9
    assert torch.equal(predicted(model, later, action), found)
    assert not torch.equal(predicted(model, first, action), found)
    for step, changed in ((1, 0), (3, 2)):  # the action after step t shows in step t + 1
        other = action.clone()
        other[:, step] = 1 - other[:, step]
        differs = (predicted(model, obs, other) != found).flatten(2).any(2).any(0)
        assert differs.tolist() == [t >= changed for t in range(4)]
    last = action.clone()
    last[:, -1] = 0
    assert torch.equal(predicted(model, obs, last), found)


def test_images_are_predicted() -> None:
    image = torch.randint(0, 256, (2, 5, 3, 36, 36), dtype=torch.uint8)
    found = predicted(net((3, 36, 36)), image, torch.rand(2, 5, 2))
    assert found.shape == (2, 3, 3, 36, 36)
    assert 0.2 < found.mean() < 0.8


@pytest.mark.parametrize("context", [0, 6])
def test_something_is_looked_at_and_something_predicted(context: int) -> None:
    with pytest.raises(UsageError, match="from 1 to 5"):
        open_loop(net(3), torch.zeros(1, 6, 3), torch.zeros(1, 6, 2), context)


def test_a_counter_is_predicted_after_training() -> None:
    """The action adds 3 or nothing to one number: what it becomes follows from the actions."""
    rng, count, steps = np.random.default_rng(0), 32, 6
    chosen = rng.integers(0, 2, (count, steps))
    seen = np.concatenate([np.zeros((count, 1)), chosen.cumsum(1) * 3], 1)[..., None]
    obs = seen.astype(np.float32)
    learn = {"learning_rate": 1e-2, "max_starts": 2, "horizon": 1}
    model = {"obs_shape": 1, "action_shape": 2, **MODEL}
    seed_everything(0)
    policy = DreamerPolicy({"model": {"type": "dreamer", **model}, "learn": learn})
    batch = Batch(
        {
            "obs": obs[:, :-1],
            "next_obs": obs[:, 1:],
            "action": chosen,
            "reward": np.zeros((count, steps), np.float32),
            "done": np.zeros((count, steps), np.float32),
            "prev_state": np.zeros((count, policy.get_attribute("model").state_size), np.float32),
        },
        count,
    )
    for _ in range(80):
        policy.learn_mode.forward(batch)
    action = torch.nn.functional.one_hot(torch.from_numpy(chosen), 2).float()
    action = torch.cat([action, action[:, :1]], 1)
    found = open_loop(policy.get_attribute("model"), torch.from_numpy(obs), action, 1)
    error = (found - torch.from_numpy(obs[:, 1:])).abs().mean()
    constant = (torch.from_numpy(obs[:, 1:]) - obs[:, 1:].mean()).abs().mean()
    assert error < 0.5 * constant, (error, constant)
