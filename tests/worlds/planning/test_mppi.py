"""MPPI finds the best sequences of a known function, and follows what is proposed."""

from __future__ import annotations

import torch

from dicore_worlds import MPPI

WANTED = torch.tensor(
    [[[0.5, -0.8], [0.1, 0.9], [-0.6, 0.0]], [[-0.9, 0.2], [0.0, 0.3], [0.7, 1.0]]]
)
PLANNER = MPPI(
    iterations=8, num_samples=256, num_elites=24, min_std=0.02, max_std=1.0, temperature=5.0
)
NONE = torch.zeros(2, 0, 3, 2)


def value(actions: torch.Tensor) -> torch.Tensor:
    return -(actions - WANTED.unsqueeze(1)).square().sum((-1, -2))


def noise(planner: MPPI = PLANNER) -> torch.Tensor:
    form = (2, planner.iterations, planner.num_samples, 3, 2)
    return torch.randn(form, generator=torch.Generator().manual_seed(0))


def test_the_mean_reaches_the_best_sequence_of_each_state() -> None:
    found = PLANNER.plan(value, torch.zeros(2, 3, 2), noise(), NONE)
    torch.testing.assert_close(found.mean, WANTED, atol=0.06, rtol=0)
    assert torch.equal(found.action, found.mean[:, 0])
    assert (found.std <= 0.1).all()
    assert found.std.min() >= 0.02 - 1e-6


def test_a_proposed_sequence_that_is_best_is_followed() -> None:
    planner = PLANNER._replace(iterations=1, num_elites=1)
    found = planner.plan(value, torch.zeros(2, 3, 2), noise(planner), WANTED.unsqueeze(1))
    assert torch.equal(found.mean, WANTED)


def test_one_of_the_best_is_drawn_by_a_number() -> None:
    planner = PLANNER._replace(iterations=1, num_elites=2, temperature=1e-3)  # about equal weights
    tried = torch.stack([WANTED, WANTED + 0.01], 1)
    for number, chosen in ((0.25, 0), (0.75, 1)):
        draw = torch.full((2,), number)
        found = planner.plan(value, torch.zeros(2, 3, 2), noise(planner), tried, draw)
        torch.testing.assert_close(found.action, tried[:, chosen, 0])


def test_the_weights_are_those_of_the_formula() -> None:
    planner = PLANNER._replace(iterations=1, num_samples=1, num_elites=3, temperature=0.7)
    tried = torch.stack([WANTED, WANTED + 0.2, WANTED - 0.5], 1)
    far = torch.full((2, 1, 1, 3, 2), 1e3)
    found = planner.plan(value, torch.zeros(2, 3, 2), far, tried)
    weight = (0.7 * value(tried)).softmax(1)[:, :, None, None]
    mean = (weight * tried).sum(1)
    torch.testing.assert_close(found.mean, mean)
    std = (weight * (tried - mean.unsqueeze(1)) ** 2).sum(1).sqrt()
    torch.testing.assert_close(found.std, std.clamp(0.02, 1.0))
