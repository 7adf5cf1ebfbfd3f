"""Losses of offline learning by hand and against loops in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from dicore.errors import SchemaError
from dicore_plugins.functional import (
    advantage_weight,
    awr_error,
    cql_error,
    discrete_cql_error,
    diversity_error,
    expectile_error,
    gumbel_error,
    rebrac_error,
    soft_minimum,
    td3_bc_error,
)

E, B, A = 3, 5, 2


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_td3_bc_by_hand() -> None:
    """mean |Q| is 2: lambda = 5 / 2; squared distances 1 and 9, over one dimension."""
    q = torch.tensor([1.0, -3.0], requires_grad=True)
    action, shown = torch.tensor([[0.0], [1.0]], requires_grad=True), torch.tensor([[1.0], [-2.0]])
    loss = td3_bc_error(q, action, shown, 5.0)
    assert loss.item() == pytest.approx((1 + 9) / 2 - 2.5 * (1 - 3) / 2)
    loss.backward()  # type: ignore[no-untyped-call]
    assert q.grad is not None
    assert q.grad.tolist() == [-1.25, -1.25]  # the scale has no gradient
    assert td3_bc_error(q, action, shown, 0.0).item() == pytest.approx(5)
    with pytest.raises(SchemaError, match="same shape"):
        td3_bc_error(q, action, shown[:, 0])


@pytest.mark.parametrize("weighted", [False, True])
def test_the_conservative_term_against_loops(weighted: bool) -> None:
    q, sampled, density = normal(E, B), normal(E, B, 4, seed=1), normal(B, 4, seed=2)
    weight = torch.linspace(0.1, 2, B) if weighted else None
    total = 0.0
    for e in range(E):
        for b in range(B):
            terms = [math.exp(sampled[e, b, m] - density[b, m]) for m in range(4)]
            factor = 1.0 if weight is None else weight[b].item()
            total += factor * (math.log(sum(terms) / 4) - q[e, b].item()) / B
    assert cql_error(q, sampled, density, weight).item() == pytest.approx(total, rel=1e-5)


def test_the_conservative_term_estimates_the_integral() -> None:
    """Actions of a density that is not uniform give log of the integral of exp Q over [-1, 1]."""
    generator = torch.Generator().manual_seed(0)
    action = torch.rand(1, 100_000, generator=generator).sqrt() * 2 - 1  # density (a + 1) / 2
    value = torch.sin(3 * action)
    found = cql_error(torch.zeros(1, 1), value[None], torch.log((action + 1) / 2))
    at = np.linspace(-1, 1, 10_001)
    whole = np.trapezoid(np.exp(np.sin(3 * at)), at)
    assert found.item() == pytest.approx(math.log(whole), abs=0.02)


def test_the_conservative_term_of_discrete_actions() -> None:
    q = normal(B, 4).requires_grad_()
    action, weight = torch.tensor([0, 1, 2, 3, 0]), torch.linspace(0.1, 2, B)
    z = q.detach().double().numpy()
    terms = np.log(np.exp(z).sum(1)) - z[np.arange(B), action]
    assert (terms > 0).all()
    assert discrete_cql_error(q, action).item() == pytest.approx(terms.mean(), rel=1e-5)
    found = discrete_cql_error(q, action, weight)
    assert found.item() == pytest.approx((terms * weight.numpy()).mean(), rel=1e-5)
    masked = q.detach().clone()
    masked[:, 3] = -1e8
    assert discrete_cql_error(masked[:3], action[:3]).item() == pytest.approx(
        discrete_cql_error(q.detach()[:3, :3], action[:3]).item()
    )


@pytest.mark.parametrize("expectile", [0.5, 0.9])
def test_an_expectile(expectile: float) -> None:
    value, target = torch.zeros(2), torch.tensor([2.0, -1.0])
    wanted = (expectile * 4 + (1 - expectile) * 1) / 2
    assert expectile_error(value, target, expectile).item() == pytest.approx(wanted)
    weight = torch.tensor([0.0, 2.0])
    assert expectile_error(value, target, expectile, weight).item() == pytest.approx(1 - expectile)
    with pytest.raises(SchemaError, match="same shape"):
        expectile_error(value[:, None], target)


def test_an_expectile_is_near_the_largest() -> None:
    """Its minimum over samples of 0 and 1: m with tau (1 - m) = (1 - tau) m, so m = tau."""
    target, values = torch.tensor([0.0, 1.0]), torch.linspace(0, 1, 101)
    losses = [expectile_error(each.expand(2), target, 0.9).item() for each in values]
    assert values[int(np.argmin(losses))].item() == pytest.approx(0.9)


def test_gumbel_regression_finds_the_soft_maximum() -> None:
    """V = beta log E exp(Q / beta) has the least loss of all values, and its gradient is zero."""
    q = torch.tensor([0.0, 1.0, 3.0])
    best = 0.5 * math.log(sum(math.exp(each / 0.5) for each in q.tolist()) / 3)
    values = [best - 0.2, best, best + 0.2]
    losses = [
        gumbel_error(torch.full((3,), v), q, 0.5).item() * math.exp((3 - v) / 0.5) for v in values
    ]  # the scale of the largest z taken off
    assert losses[1] < min(losses[0], losses[2])
    value = torch.tensor(best, requires_grad=True)
    gumbel_error(value.expand(3), q, 0.5).backward()
    assert value.grad is not None
    assert value.grad.item() == pytest.approx(0, abs=1e-5)
    z = (q - 2.0) / 0.5
    wanted = (z.exp() - z - 1).mean().item() / math.exp(2)  # the largest z is 2
    assert gumbel_error(torch.full((3,), 2.0), q, 0.5).item() == pytest.approx(wanted, rel=1e-5)


def test_gumbel_regression_of_far_values_is_finite() -> None:
    value = torch.zeros(2, requires_grad=True)
    loss: Any = gumbel_error(value, torch.tensor([1e4, -1e4]), 1.0)
    loss.backward()
    assert loss.isfinite()
    assert value.grad is not None
    assert value.grad.isfinite().all()


def test_the_actor_of_rebrac_against_loops() -> None:
    q, action, shown = normal(B), normal(B, A), normal(B, A) * 2
    scale = sum(abs(each) for each in q.tolist()) / B
    total = 0.0
    for b in range(B):
        total += 0.3 * sum(((action[b] - shown[b]) ** 2).tolist()) - q[b].item() / scale
    assert rebrac_error(q, action, shown, 0.3).item() == pytest.approx(total / B, rel=1e-4)


def test_weights_of_advantages() -> None:
    advantage = torch.tensor([0.0, 2.0, -2.0, 1e6], requires_grad=True)
    weights = advantage_weight(advantage, 2.0, 50.0)
    assert weights.tolist() == pytest.approx([1, math.e, 1 / math.e, 50])
    assert not weights.requires_grad
    log_prob = torch.tensor([-1.0, -2.0, -3.0, -4.0], requires_grad=True)
    loss = awr_error(log_prob, weights)
    assert loss.item() == pytest.approx((1 + 2 * math.e + 3 / math.e + 200) / 4)
    with pytest.raises(SchemaError, match="same shape"):
        awr_error(log_prob, weights[:, None])


def test_diversity_against_loops() -> None:
    gradient = normal(E, B, A)
    found: Any = diversity_error(gradient)
    unit = gradient.double().numpy()
    unit = unit / np.linalg.norm(unit, axis=-1, keepdims=True)
    total = sum(
        unit[i, b] @ unit[j, b] for b in range(B) for i in range(E) for j in range(E) if i != j
    )
    assert found.item() == pytest.approx(total / B / (E - 1), rel=1e-4)
    same = gradient[:1].expand(E, -1, -1)
    assert diversity_error(same).item() == pytest.approx(E, rel=1e-4)


def test_the_soft_minimum() -> None:
    q = torch.tensor([[1.0, 4.0], [3.0, 0.0], [2.0, 2.0]])
    assert soft_minimum(q, 0.75).tolist() == pytest.approx([0.75 + 0.75, 0 + 1])
    assert soft_minimum(q, 1.0).tolist() == [1, 0]
