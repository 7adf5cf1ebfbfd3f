"""Distributional and Munchausen targets and losses, by hand and against loops in float64."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dicore.errors import SchemaError, UsageError
from dicore_plugins.functional import (
    c51_loss,
    c51_target,
    fqf_fraction_loss,
    fqf_value,
    munchausen_bonus,
    qrdqn_loss,
    quantile_target,
    soft_target,
    truncated_quantiles,
)


def test_projection_by_hand() -> None:
    """Three atoms at 0, 1, 2: r + 0.5 z = 0.5, 1.0, 1.5 lie between, on, and between atoms."""
    support = torch.tensor([0.0, 1.0, 2.0])
    probability = torch.tensor([[0.2, 0.3, 0.5]] * 3)
    reward, done = torch.tensor([0.5, 9.0, -9.0]), torch.tensor([0.0, 0.0, 1.0])
    found = c51_target(probability, reward, done, 0.5, support)
    torch.testing.assert_close(
        found, torch.tensor([[0.1, 0.1 + 0.3 + 0.25, 0.25], [0, 0, 1.0], [1.0, 0, 0]])
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 6), st.integers(2, 9), st.integers(0, 99), st.booleans())
def test_projection_against_the_paper(rows: int, atoms: int, seed: int, ignore: bool) -> None:
    g = torch.Generator().manual_seed(seed)
    p = torch.softmax(torch.randn(rows, atoms, generator=g), 1)
    reward = torch.randn(rows, generator=g) * 2
    done = (torch.rand(rows, generator=g) < 0.4).float()
    gamma = torch.rand(rows, generator=g)
    low, high = -1.5, 2.0
    found = c51_target(p, reward, None if ignore else done, gamma, torch.linspace(low, high, atoms))
    wanted = np.zeros((rows, atoms))
    step = (high - low) / (atoms - 1)
    for row in range(rows):
        stop = 0.0 if ignore else float(done[row])
        for j in range(atoms):
            z = float(reward[row]) + float(gamma[row]) * (1 - stop) * (low + j * step)
            b = (min(max(z, low), high) - low) / step
            for i in range(atoms):
                wanted[row, i] += float(p[row, j]) * max(0.0, 1 - abs(b - i))
    np.testing.assert_allclose(found, wanted, atol=2e-5)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-5)


def test_cross_entropy_and_its_priority() -> None:
    logit = torch.randn(5, 4, requires_grad=True)
    target = torch.softmax(torch.randn(5, 4), 1)
    weight = torch.rand(5)
    loss, priority = c51_loss(logit, target, weight)
    log_p = logit.detach().double().log_softmax(1).numpy()
    t = target.double().numpy()
    np.testing.assert_allclose(
        loss.item(), (-(t * log_p).sum(1) * weight.numpy()).mean(), rtol=1e-5
    )
    np.testing.assert_allclose(priority, (t * (np.log(t) - log_p)).sum(1), atol=1e-5)
    assert loss.requires_grad
    assert not priority.requires_grad
    same = torch.log(torch.tensor([[0.5, 0.5, 0.0]]) + 1e-12)
    assert c51_loss(same, torch.tensor([[0.5, 0.5, 0.0]]))[1].item() < 1e-6


def test_quantile_loss_by_hand() -> None:
    """One quantile at 0 with fraction 1/4, targets 0.5 and -2, kappa 1."""
    loss, error = qrdqn_loss(
        torch.tensor([[0.0]]), torch.tensor([[0.5, -2.0]]), torch.tensor([0.25])
    )
    wanted = (0.25 * 0.5 * 0.5**2 + 0.75 * (2 - 0.5)) / 2
    assert math.isclose(loss.item(), wanted, rel_tol=1e-6)
    assert error.tolist() == [0.75]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 4), st.integers(1, 5), st.integers(1, 5), st.sampled_from([0.0, 0.5, 1.0]))
def test_quantile_loss_against_loops(rows: int, n: int, m: int, kappa: float) -> None:
    g = torch.Generator().manual_seed(rows * 100 + n * 10 + m)
    theta, target = torch.randn(rows, n, generator=g), torch.randn(rows, m, generator=g) * 2
    fraction, weight = torch.rand(rows, n, generator=g), torch.rand(rows, generator=g)
    before = target.clone()
    loss, _ = qrdqn_loss(theta, target, fraction, weight, kappa)
    wanted = 0.0
    for row in range(rows):
        for i in range(n):
            for j in range(m):
                u = float(target[row, j]) - float(theta[row, i])
                huber = abs(u) - kappa / 2 if abs(u) > kappa else u * u / (2 * kappa or 1)
                side = abs(float(fraction[row, i]) - (u < 0))
                wanted += side * huber / m * float(weight[row]) / rows
    assert math.isclose(loss.item(), wanted, rel_tol=1e-4, abs_tol=1e-6)
    assert torch.equal(target, before)


@pytest.mark.parametrize("kappa", [0.0, 0.5, 1.0])
def test_the_gradient_of_the_quantile_loss_is_its_slope(kappa: float) -> None:
    g = torch.Generator().manual_seed(1)
    theta, target = (torch.randn(3, n, generator=g, dtype=torch.float64) for n in (4, 5))
    fraction, weight = torch.rand(3, 4, generator=g).double(), torch.rand(3, generator=g).double()

    def loss_of(theta: Any) -> Any:
        return qrdqn_loss(theta, target, fraction, weight, kappa)[0]

    assert torch.autograd.gradcheck(loss_of, theta.requires_grad_())
    (slope,) = torch.autograd.grad(loss_of(theta), theta, create_graph=bool(kappa))
    if kappa:  # else it is the same in a neighbourhood
        assert torch.autograd.gradgradcheck(loss_of, theta)
        assert torch.autograd.grad(slope.square().sum(), theta)[0].abs().max() > 1e-3


def test_quantiles_learn_the_quantiles() -> None:
    """The minimum of the loss is at the quantiles of the target, with a small kappa."""
    fraction = (torch.arange(5) + 0.5) / 5
    theta = torch.zeros(1, 5, requires_grad=True)
    sample = torch.linspace(0, 1, 1001)[None]
    optimizer = torch.optim.Adam([theta], 0.01)
    for _ in range(600):
        optimizer.zero_grad()
        qrdqn_loss(theta, sample, fraction, kappa=0.01)[0].backward()
        optimizer.step()
    torch.testing.assert_close(theta.detach()[0], fraction, atol=0.02, rtol=0)


def test_targets_stop_at_the_end_of_an_episode() -> None:
    value = torch.tensor([[1.0, 2.0], [1.0, 2.0]])
    found = quantile_target(value, torch.tensor([0.5, 0.5]), torch.tensor([0.0, 1.0]), 0.9)
    torch.testing.assert_close(found, torch.tensor([[1.4, 2.3], [0.5, 0.5]]))


def test_columns_that_would_be_broadcast_are_refused() -> None:
    value, reward = torch.ones(4, 3), torch.ones(4)
    with pytest.raises(SchemaError, match=r"rewards must be \[B\], got \[4, 1\]"):
        quantile_target(value, reward[:, None], None, 0.9)
    with pytest.raises(SchemaError, match=r"got \[4, 3\] and \[4\]"):
        qrdqn_loss(value, reward, torch.rand(3))
    with pytest.raises(SchemaError, match=r"target \[4, 1\]"):
        c51_loss(value, value[:, :1])
    with pytest.raises(SchemaError, match=r"loss \[4\], weight \[4, 1\]"):
        c51_loss(value, value, reward[:, None])
    with pytest.raises(SchemaError, match=r"at_middle \[4, 2\]"):
        fqf_fraction_loss(torch.ones(4, 3), torch.ones(4, 2), value)


@pytest.mark.parametrize("temperature", [0.03, 1.0])
def test_munchausen_against_the_definition(temperature: float) -> None:
    g = torch.Generator().manual_seed(3)
    q, next_q = (torch.randn(6, 3, generator=g) for _ in range(2))
    action, reward = torch.tensor([0, 1, 2, 0, 1, 2]), torch.randn(6, generator=g)
    done = torch.tensor([0.0, 1, 0, 0, 1, 0])
    t = temperature

    def log_pi(values: np.ndarray) -> np.ndarray:
        shifted = values / t - (values / t).max(1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(1, keepdims=True))

    own = t * log_pi(q.double().numpy())[np.arange(6), action.numpy()]
    bonus = munchausen_bonus(q, action, t, -1.0)
    np.testing.assert_allclose(bonus, np.clip(own, -1, 0), atol=1e-5)
    after = next_q.double().numpy()
    log = log_pi(after)
    value = (np.exp(log) * (after - t * log)).sum(1)
    wanted = reward.numpy() + 0.97 * (1 - done.numpy()) * value
    np.testing.assert_allclose(soft_target(next_q, reward, done, 0.97, t), wanted, atol=1e-5)


def wasserstein(boundary: Any, quantile: Any, at_middle: Any = None) -> float:
    """The 1-Wasserstein error of the steps of FQF, by a fine sum."""
    total = 0.0
    for i, (low, high) in enumerate(pairwise(boundary)):
        place = low + (np.arange(20_000) + 0.5) / 20_000 * (high - low)
        step = quantile((low + high) / 2) if at_middle is None else at_middle[i]
        total += float(np.abs(quantile(place) - step).mean()) * (high - low)
    return total


@pytest.mark.parametrize("rises", [True, False])
def test_the_fraction_loss_has_the_slope_of_the_wasserstein_error(rises: bool) -> None:
    """Numerically; with the steps held where they are if F does not rise, as of a network."""
    quantile: Any = (lambda x: np.exp(2 * x)) if rises else (lambda x: np.sin(5 * x))
    places = np.array([0.0, 0.2, 0.45, 0.8, 1.0])
    at_middle = quantile((places[1:] + places[:-1]) / 2)
    tau = torch.from_numpy(places[None].copy()).requires_grad_()
    inner = torch.from_numpy(quantile(places[None, 1:-1]))
    fqf_fraction_loss(tau, inner, torch.from_numpy(at_middle[None])).backward()  # type: ignore[no-untyped-call]
    assert tau.grad is not None
    for i in (1, 2, 3):
        shift = np.eye(5)[i] * 1e-4
        sides = [
            wasserstein(places + sign * shift, quantile, None if rises else at_middle)
            for sign in (1, -1)
        ]
        slope = (sides[0] - sides[1]) / 2e-4
        assert float(tau.grad[0, i]) == pytest.approx(slope, abs=1e-3)
    assert tau.grad[0, 0] == tau.grad[0, -1] == 0


def test_the_fraction_loss_by_hand() -> None:
    """F = 1, 2, 4 in the middles, 1.5 and 2.5 at the boundaries: 0.5 - 0.5 and 0.5 - 1.5."""
    tau = torch.tensor([[0.0, 0.25, 0.75, 1.0]] * 2, requires_grad=True)
    middle = torch.tensor([[1.0, 2.0, 4.0]] * 2, requires_grad=True)
    inner = torch.tensor([[1.5, 2.5]] * 2, requires_grad=True)
    assert fqf_fraction_loss(tau, inner, middle).item() == -0.75
    loss = fqf_fraction_loss(tau, inner, middle, torch.tensor([2.0, 0.0]))
    loss.backward()  # type: ignore[no-untyped-call]
    assert loss.item() == -0.75
    assert tau.grad is not None
    assert tau.grad.tolist() == [[0, 0, -1, 0], [0, 0, 0, 0]]
    assert inner.grad is middle.grad is None


def test_the_value_of_steps_is_their_area() -> None:
    tau = torch.tensor([[0.0, 0.25, 1.0]] * 2)
    middle = torch.tensor([[4.0, 8.0], [0.0, 4.0]])
    assert fqf_value(tau, middle).tolist() == [7.0, 3.0]
    assert fqf_value(tau, middle[:, None].repeat(1, 3, 1)).tolist() == [[7.0] * 3, [3.0] * 3]


def test_truncated_quantiles_drop_the_largest_of_all() -> None:
    one = torch.tensor([[[1.0, 9.0, 3.0]], [[2.0, 8.0, 7.0]]])
    assert truncated_quantiles(one, 1).tolist() == [[1, 2, 3, 7]]
    assert truncated_quantiles(one, 0).tolist() == [[1, 2, 3, 7, 8, 9]]
    assert truncated_quantiles(one.index_fill(2, torch.tensor([1]), torch.nan), 2).isnan().all()
    with pytest.raises(UsageError, match=r"drop must be in \[0, 3\), got 3"):
        truncated_quantiles(one, 3)
