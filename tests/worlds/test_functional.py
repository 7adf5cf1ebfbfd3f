"""Functions of DreamerV3 against the formulas of the paper, written out in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dicore_plugins.functional import two_hot_loss
from dicore_worlds import (
    categorical_kl,
    categorical_sample,
    exponential_bins,
    free_bits_kl,
    gaussian_entropy,
    gaussian_log_prob,
    imagined_return,
    return_range,
    two_hot_mean,
    two_hot_nll,
    unimix,
)

RNG = np.random.default_rng(0)


def drawn(*shape: int, scale: float = 1.0) -> Any:
    """Returns a tensor of normally distributed numbers."""
    return torch.from_numpy((scale * RNG.standard_normal(shape)).astype(np.float32))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_bins_are_symexp_of_equal_steps() -> None:
    bins, steps = exponential_bins(255).numpy(), np.linspace(-20, 20, 255)
    np.testing.assert_allclose(bins, np.sign(steps) * np.expm1(np.abs(steps)), rtol=1e-5)
    assert (bins == -bins[::-1]).all()
    assert bins[127] == 0


def test_equal_probabilities_have_the_mean_0_although_bins_are_large() -> None:
    bins = exponential_bins(255)
    assert two_hot_mean(torch.zeros(3, 255), bins).tolist() == [0, 0, 0]


def test_mean_is_the_sum_over_bins() -> None:
    bins, logit = exponential_bins(11, 3.0), drawn(4, 5, 11)
    wanted = (softmax(logit.numpy()) * bins.numpy()).sum(-1)
    np.testing.assert_allclose(two_hot_mean(logit, bins), wanted, rtol=1e-4, atol=1e-5)


def test_two_hot_nll_is_the_cross_entropy_with_both_neighbours() -> None:
    bins, logit = exponential_bins(11, 3.0), drawn(9, 11)
    target = torch.tensor([0.0, 0.3, -0.3, 5.0, -12.0, 100.0, -100.0, float(bins[3]), 1e-3])
    inside = np.clip(target.numpy(), bins[0].item(), bins[-1].item())
    encoded = np.zeros((9, 11))
    for row, y in enumerate(inside):
        above = int(np.clip(np.searchsorted(bins.numpy(), y), 1, 10))
        low, high = bins[above - 1].item(), bins[above].item()
        encoded[row, above] = (y - low) / (high - low)
        encoded[row, above - 1] = 1 - encoded[row, above]
    wanted = -(encoded * np.log(softmax(logit.numpy()))).sum(-1)
    found = two_hot_nll(logit, target, bins)
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    assert found.mean().item() == pytest.approx(two_hot_loss(logit, target, bins)[0].item())


def test_two_hot_regression_learns_a_number() -> None:
    """The logits that minimise the loss have the target as their mean."""
    bins, logit = exponential_bins(41, 8.0), torch.zeros(1, 41, requires_grad=True)
    target = torch.tensor([123.4])
    for _ in range(200):
        (slope,) = torch.autograd.grad(two_hot_nll(logit, target, bins).sum(), logit)
        logit.data.sub_(slope * 20).clamp_(-30, 30)
    assert two_hot_mean(logit.detach(), bins).item() == pytest.approx(123.4, rel=0.05)


def test_unimix_adds_a_share_of_the_uniform_distribution() -> None:
    logit = drawn(2, 3, 4, scale=30)
    wanted = 0.99 * softmax(logit.numpy()) + 0.01 / 4
    np.testing.assert_allclose(unimix(logit), wanted, rtol=1e-4)
    assert unimix(logit).min() >= 0.0024


def test_divergence_is_summed_over_variables() -> None:
    p, q = softmax(drawn(5, 3, 4).numpy()), softmax(drawn(5, 3, 4).numpy())
    wanted = (p * np.log(p / q)).sum((1, 2))
    left, right = torch.from_numpy(np.log(p)), torch.from_numpy(np.log(q))
    np.testing.assert_allclose(categorical_kl(left, right), wanted, rtol=1e-4)


def test_free_bits_cost_nothing_and_have_no_gradient() -> None:
    logits = torch.zeros(2, 1, 2, requires_grad=True)
    far = torch.tensor([[[0.0, 0.1]], [[0.0, 12.0]]])  # below and above one nat
    dynamics, representation = free_bits_kl(far.log_softmax(-1), logits.log_softmax(-1), 0.5)
    near = np.log(2)  # of (nearly) one class and two equal ones
    assert dynamics[0].item() == representation[0].item() == 0.5
    assert dynamics[1].item() == pytest.approx(near, rel=1e-3)
    dynamics.sum().backward()
    assert logits.grad is not None
    assert logits.grad[0].abs().max() == 0
    assert logits.grad[1].abs().max() > 0


def test_each_loss_moves_one_side_only() -> None:
    posterior = drawn(1, 2, 3).requires_grad_()
    prior = drawn(1, 2, 3).requires_grad_()
    dynamics, representation = free_bits_kl(posterior.log_softmax(-1), prior.log_softmax(-1), 0.0)
    dynamics.sum().backward(retain_graph=True)
    assert posterior.grad is None
    assert prior.grad is not None
    prior.grad = None
    representation.sum().backward()
    assert prior.grad is None
    assert posterior.grad is not None


def test_drawn_classes_have_their_probabilities() -> None:
    probability = torch.tensor([0.2, 0.5, 0.3]).expand(10_000, 3)
    uniform = torch.from_numpy(RNG.random(10_000, np.float32))
    share = categorical_sample(probability, uniform).mean(0)
    np.testing.assert_allclose(share, [0.2, 0.5, 0.3], atol=0.02)


def test_without_noise_the_most_probable_class_is_taken() -> None:
    probability = torch.tensor([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])
    assert categorical_sample(probability, None).tolist() == [[0, 1, 0], [1, 0, 0]]


def test_gradients_pass_straight_through_a_draw() -> None:
    logit = drawn(1, 3).requires_grad_()
    weight = torch.tensor([1.0, 2.0, 4.0])
    (categorical_sample(logit.softmax(-1), torch.tensor([0.5])) * weight).sum().backward()
    found, logit.grad = logit.grad, None
    (logit.softmax(-1) * weight).sum().backward()
    torch.testing.assert_close(found, logit.grad)


def test_imagined_returns_are_the_recursion_of_the_paper() -> None:
    reward, value, discount = (RNG.random((4, 2)).astype(np.float32) for _ in range(3))
    wanted, after = np.zeros((4, 2), np.float32), value[-1]
    for t in (3, 2, 1, 0):
        after = reward[t] + discount[t] * (0.05 * value[t] + 0.95 * after)
        wanted[t] = after
    steps = [torch.from_numpy(each) for each in (reward, value, discount)]
    found = imagined_return(steps[0], steps[1], steps[2], 0.95)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_range_of_returns_leaves_out_a_tenth() -> None:
    returns = torch.arange(101.0).reshape(1, 101)[:, torch.randperm(101)]
    assert return_range(returns).item() == pytest.approx(90)


def test_gaussians_are_those_of_torch() -> None:
    mean, std, x = drawn(3, 2), drawn(3, 2).exp(), drawn(3, 2)
    wanted = torch.distributions.Independent(torch.distributions.Normal(mean, std), 1)
    torch.testing.assert_close(gaussian_log_prob(x, mean, std), wanted.log_prob(x))
    torch.testing.assert_close(gaussian_entropy(std), wanted.entropy())
