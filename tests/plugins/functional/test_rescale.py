"""Value rescaling, symlog and two-hot bins: inverses, formulas, and by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from dicore.errors import SchemaError
from dicore_plugins.functional import (
    dqn_td_target,
    inv_symlog,
    symlog,
    two_hot,
    two_hot_loss,
    two_hot_value,
    value_inv_transform,
    value_transform,
)

NUMBERS = [0.0, 1e-6, -1e-3, 0.5, -3.0, 99.0, -1e4, 1e6]


@pytest.mark.parametrize("eps", [1e-2, 1e-3, 0.0])
def test_value_rescaling_is_the_formula_and_has_an_inverse(eps: float) -> None:
    x = torch.tensor(NUMBERS)
    found = value_transform(x, eps)
    wanted = [
        math.copysign(math.expm1(0.5 * math.log1p(abs(float(v)))), v) + eps * float(v) for v in x
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    torch.testing.assert_close(value_inv_transform(found, eps), x, rtol=1e-5, atol=1e-9)
    assert value_transform(torch.tensor(3.0), 0.01).item() == pytest.approx(1.03)


def test_symlog_is_the_formula_and_has_an_inverse() -> None:
    x = torch.tensor(NUMBERS)
    np.testing.assert_allclose(
        symlog(x), [math.copysign(math.log1p(abs(float(v))), v) for v in x], rtol=1e-6
    )
    torch.testing.assert_close(inv_symlog(symlog(x)), x, rtol=1e-5, atol=1e-9)
    assert symlog(torch.tensor(math.e - 1)).item() == pytest.approx(1.0)


@pytest.mark.parametrize("function", [value_transform, value_inv_transform, symlog, inv_symlog])
def test_gradients_are_those_of_the_function(function: Any) -> None:
    """At 0, too, where a network often begins."""
    x = torch.tensor([0.25, -2.0, 0.0], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(function, x, eps=1e-5, atol=1e-4)
    far = torch.tensor([-torch.inf, torch.inf, torch.nan])
    assert function(far)[2].isnan()
    if function is symlog:
        assert function(far)[:2].tolist() == [-torch.inf, torch.inf]


def test_a_rescaled_target_by_hand() -> None:
    """h(1 + 0.5 h^-1(1.03)) = h(1 + 0.5 * 3); double Q-learning chooses by rescaled values."""
    next_q, reward = torch.tensor([[0.2, 1.03]]), torch.tensor([1.0])
    plain = dqn_td_target(value_inv_transform(next_q), reward, torch.zeros(1), 0.5)
    assert value_transform(plain).item() == pytest.approx(math.sqrt(3.5) - 1 + 0.025, rel=1e-5)


def test_two_hot_by_hand() -> None:
    support = torch.tensor([-1.0, 0.0, 2.0])
    found = two_hot(torch.tensor([-5.0, -0.25, 0.0, 0.5, 2.0, 9.0]), support)
    assert found.tolist() == [
        [1, 0, 0], [0.25, 0.75, 0], [0, 1, 0], [0, 0.75, 0.25], [0, 0, 1], [0, 0, 1],
    ]  # fmt: skip
    assert two_hot(torch.tensor([torch.nan]), support).isnan().any()


def test_two_hot_bins_have_the_mean_of_the_number() -> None:
    support = torch.tensor([-7.0, -1.0, -0.5, 0.0, 3.0, 20.0])
    value = torch.linspace(-7, 20, 101)
    code = two_hot(value, support)
    torch.testing.assert_close(code @ support, value)
    torch.testing.assert_close(code.sum(1), torch.ones(101))
    assert int((code > 0).sum(1).max()) <= 2


@pytest.mark.parametrize("weighted", [False, True])
def test_two_hot_loss_against_loops(weighted: bool) -> None:
    g = torch.Generator().manual_seed(0)
    support = torch.linspace(-2, 3, 6)
    logit = torch.randn(5, 6, generator=g).requires_grad_()
    target = torch.randn(5, generator=g) * 2
    weight = torch.rand(5, generator=g) if weighted else None
    loss, error = two_hot_loss(logit, target, support, weight)
    wanted = 0.0
    for b in range(5):
        z = logit[b].detach().double().numpy()
        p = np.exp(z - z.max()) / np.exp(z - z.max()).sum()
        y = min(max(float(target[b]), -2.0), 3.0)
        for i in range(6):
            wanted -= (
                max(0.0, 1 - abs(y + 2 - i))
                * math.log(p[i])
                * float(1 if weight is None else weight[b])
                / 5
            )
        assert float(error[b]) == pytest.approx(
            abs(float(p @ np.linspace(-2, 3, 6)) - float(target[b])), rel=1e-4, abs=1e-5
        )
    assert loss.item() == pytest.approx(wanted, rel=1e-5)
    assert loss.requires_grad
    with pytest.raises(SchemaError, match=r"target \[5, 1\]"):
        two_hot_loss(logit, target[:, None], support)


def test_two_hot_regression_learns_the_mean() -> None:
    """Targets -1 and 100 half of the time each: the mean, without knowing the scale."""
    support = torch.linspace(-6, 6, 25)
    logit = torch.zeros(1, 25, requires_grad=True)
    optimizer = torch.optim.Adam([logit], 0.1)
    for _ in range(200):
        optimizer.zero_grad()
        target = symlog(torch.tensor([-1.0, 100.0]))
        two_hot_loss(logit.expand(2, 25), target, support)[0].backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    wanted = (symlog(torch.tensor([-1.0, 100.0]))).mean()
    torch.testing.assert_close(two_hot_value(logit, support)[0], wanted, atol=0.02, rtol=0)
