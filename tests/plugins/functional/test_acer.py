"""Losses of ACER against loops in float64, gradients, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from dicore.errors import SchemaError
from dicore_plugins.functional import acer_policy_error, acer_trust_region

B, A = 8, 3


def columns(seed: int = 0) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    logit = torch.randn(B, A, generator=g)
    return {
        "log_policy": torch.log_softmax(2 * logit, 1),
        "log_behaviour": torch.log_softmax(logit.flip(0), 1),
        "action": torch.randint(A, (B,), generator=g),
        "q": torch.randn(B, A, generator=g),
        "target": torch.randn(B, generator=g),
    }


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("clip", [0.5, 2.0, 100.0])
def test_losses_equal_the_paper(clip: float, weighted: bool) -> None:
    given = columns()
    weight = torch.linspace(0.1, 2, B) if weighted else None
    loss = acer_policy_error(**given, weight=weight, clip=clip)
    policy = correction = 0.0
    for b in range(B):
        row = {key: each[b].double().numpy() for key, each in given.items()}
        pi, mu, a = np.exp(row["log_policy"]), np.exp(row["log_behaviour"]), int(row["action"])
        w = float(weight[b]) if weight is not None else 1.0
        value = float((pi * row["q"]).sum())
        rho = pi / mu
        policy -= w * min(clip, rho[a]) * math.log(pi[a]) * (row["target"] - value) / B
        for i in range(A):
            share = max(0.0, 1 - clip / rho[i])
            correction -= w * share * pi[i] * math.log(pi[i]) * (row["q"][i] - value) / B
    assert loss.policy.item() == pytest.approx(policy, rel=1e-5, abs=1e-6)
    assert loss.correction.item() == pytest.approx(correction, rel=1e-5, abs=1e-6)


def test_on_policy_it_is_the_policy_gradient() -> None:
    """All ratios are 1: no correction, and the factor is Q_ret - V."""
    given = columns()
    logit = given["log_policy"].clone().requires_grad_()
    log_policy = torch.log_softmax(logit, 1)
    given |= {"log_policy": log_policy, "log_behaviour": log_policy.detach()}
    q = given["q"].requires_grad_()
    loss = acer_policy_error(**given, clip=1.0)
    assert loss.correction.item() == 0
    loss.policy.backward()  # type: ignore[no-untyped-call]
    pi = log_policy.detach().exp()
    factor = given["target"] - (pi * q.detach()).sum(1)
    taken = torch.nn.functional.one_hot(given["action"], A)
    torch.testing.assert_close(logit.grad, -(taken - pi) * factor[:, None] / B)
    assert q.grad is None


@pytest.mark.parametrize("clip", [0.1, 1.0])
def test_the_expected_gradient_does_not_depend_on_the_clip(clip: float) -> None:
    """Over the actions of mu, policy term and correction give the gradient of E_pi[Q]."""
    given = {key: each.double() for key, each in columns().items() if key != "action"}
    mu, q = given["log_behaviour"].exp(), given["q"]
    logit = given["log_policy"].clone().requires_grad_()
    log_policy = torch.log_softmax(logit, 1)
    total = torch.zeros((), dtype=torch.float64)
    for a in range(A):
        action = torch.full((B,), a)
        loss = acer_policy_error(
            log_policy, given["log_behaviour"], action, q, q[:, a], mu[:, a], clip=clip
        )
        total = total + loss.policy + loss.correction
    found = torch.autograd.grad(total, logit, retain_graph=True)[0]
    wanted = torch.autograd.grad(-(log_policy.exp() * q).sum(1).mean(), logit)[0]
    torch.testing.assert_close(found, wanted)


def test_actions_that_neither_policy_takes_count_for_nothing() -> None:
    given = columns()
    masked = {key: each.clone() for key, each in given.items()}
    for key in ("log_policy", "log_behaviour"):
        masked[key] = torch.cat([masked[key], torch.full((B, 1), -torch.inf)], 1)
    masked["q"] = torch.cat([masked["q"], torch.full((B, 1), 1e9)], 1)
    found, wanted = acer_policy_error(**masked), acer_policy_error(**given)
    torch.testing.assert_close(found.policy, wanted.policy)
    torch.testing.assert_close(found.correction, wanted.correction)


def test_trust_region_by_hand() -> None:
    """k . g = 2, k . k = 1: one of the two units is above the limit of 1."""
    g = torch.tensor([[2.0, 1.0], [0.5, 1.0], [3.0, 0.0]])
    k = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0]])
    found = acer_trust_region(g, k, 1.0)
    assert found.tolist() == [[1.0, 1.0], [0.5, 1.0], [3.0, 0.0]]


def test_trust_region_is_the_nearest_allowed_step() -> None:
    """The solution of min |z - g|^2 / 2 with k . z <= delta."""
    rng = torch.Generator().manual_seed(0)
    g, k = torch.randn(50, 4, generator=rng), torch.randn(50, 4, generator=rng)
    z = acer_trust_region(g, k, 0.3)
    along = (k * z).sum(1)
    assert bool((along <= 0.3 + 1e-5).all())
    free = (k * g).sum(1) <= 0.3
    assert torch.equal(z[free], g[free])
    torch.testing.assert_close(along[~free], torch.full_like(along[~free], 0.3))


def test_other_shapes_are_refused() -> None:
    given = columns()
    with pytest.raises(SchemaError, match=r"target \[8, 1\]"):
        acer_policy_error(**{**given, "target": given["target"][:, None]})
