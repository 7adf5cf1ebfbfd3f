"""Losses of behavioural cloning, DQfD and GAIL by hand and against loops in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from dicore.errors import UsageError
from dicore_plugins.functional import (
    bc_error,
    gail_error,
    gail_reward,
    guided_cost_error,
    large_margin_error,
)

B, A = 6, 4


def weights(weighted: bool) -> torch.Tensor | None:
    return torch.linspace(0.1, 2, B) if weighted else None


@pytest.mark.parametrize("weighted", [False, True])
def test_cloning_of_discrete_actions_is_the_cross_entropy(weighted: bool) -> None:
    g = torch.Generator().manual_seed(0)
    logit = torch.randn(B, A, generator=g).requires_grad_()
    action, weight = torch.randint(A, (B,), generator=g), weights(weighted)
    loss, each = bc_error({"logit": logit}, action, weight)
    z = logit.detach().double().numpy()
    nll = np.log(np.exp(z).sum(1)) - z[np.arange(B), action]
    np.testing.assert_allclose(each, nll, rtol=1e-5)
    w = 1.0 if weight is None else weight.double().numpy()
    assert loss.item() == pytest.approx((nll * w).mean(), rel=1e-5)
    assert loss.requires_grad
    assert not each.requires_grad


def test_cloning_of_continuous_actions_by_hand() -> None:
    """A standard normal at 0 and 2: log(2 pi) / 2, and 2 more."""
    output = {"mean": torch.zeros(2, 1), "log_std": torch.zeros(2, 1)}
    _, each = bc_error(output, torch.tensor([[0.0], [2.0]]))
    assert each.tolist() == pytest.approx(
        [0.5 * math.log(2 * math.pi), 0.5 * math.log(2 * math.pi) + 2]
    )


def test_masked_actions_have_no_share() -> None:
    logit = torch.tensor([[0.0, 0.0, 50.0]])
    mask = torch.tensor([[1, 1, 0]])
    loss, _ = bc_error({"logit": logit}, torch.tensor([0]), mask=mask)
    assert loss.item() == pytest.approx(math.log(2))


def test_large_margin_by_hand() -> None:
    """Q = 1, 2, 3. Shown 3: 2 + 0.8 is below 3, loss 0. Shown 1: 3 + 0.8 - 1. Weight 0: nothing."""
    q = torch.tensor([[1.0, 2.0, 3.0]] * 3, requires_grad=True)
    action = torch.tensor([2, 0, 1])
    loss = large_margin_error(q, action, torch.tensor([1.0, 1.0, 0.0]))
    assert loss.item() == pytest.approx((0 + 2.8) / 3)
    loss.backward()  # type: ignore[no-untyped-call]
    assert q.grad is not None
    torch.testing.assert_close(q.grad * 3, torch.tensor([[0.0, 0, 0], [-1, 0, 1], [0, 0, 0]]))
    assert large_margin_error(q, action, margin=0.0).item() == pytest.approx((0 + 2 + 1) / 3)


@pytest.mark.parametrize("weighted", [False, True])
def test_discriminator_against_loops(weighted: bool) -> None:
    g = torch.Generator().manual_seed(0)
    expert = torch.randn(B, generator=g).requires_grad_()
    agent = torch.randn(2 * B, generator=g).requires_grad_()
    weight = weights(weighted)
    found = gail_error(expert, agent, weight)
    wanted = 0.0
    for i, x in enumerate(expert.tolist()):
        wanted -= math.log(1 / (1 + math.exp(-x))) * (1 if weight is None else float(weight[i])) / B
    for x in agent.tolist():
        wanted -= math.log(1 - 1 / (1 + math.exp(-x))) / (2 * B)
    assert found.loss.item() == pytest.approx(wanted, rel=1e-5)
    assert found.expert_accuracy.item() == pytest.approx(np.mean([x > 0 for x in expert.tolist()]))
    assert found.agent_accuracy.item() == pytest.approx(np.mean([x < 0 for x in agent.tolist()]))
    assert not found.agent_accuracy.requires_grad


@pytest.mark.parametrize(
    ("form", "wanted"),
    [("gail", -math.log(0.25)), ("log_d", math.log(0.75)), ("airl", math.log(0.75 / 0.25))],
)
def test_rewards_of_a_discriminator(form: Any, wanted: float) -> None:
    """D = 3/4; extreme logits stay finite."""
    logit = torch.tensor([math.log(3.0), 100.0, -100.0])
    found = gail_reward(logit, form)
    assert found[0].item() == pytest.approx(wanted)
    assert bool(found.isfinite().all())


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(UsageError, match="unknown form 'wgan'"):
        gail_reward(torch.zeros(1), "wgan")  # type: ignore[arg-type]


def test_guided_cost_weighs_steps_by_their_probabilities() -> None:
    """With the probabilities of a uniform agent, it is the log-likelihood of the expert's steps."""
    rng = np.random.default_rng(0)
    expert, agent, log_prob = (torch.from_numpy(rng.normal(size=n)) for n in (5, 7, 7))
    found = guided_cost_error(expert, agent, log_prob)
    ratio = np.concatenate([agent - log_prob, expert - log_prob.mean()])
    wanted = np.log(np.mean(np.exp(ratio))) - expert.numpy().mean()
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    reward = torch.tensor([0.3, -1.0, 2.0])  # of all three actions of a bandit
    uniform = guided_cost_error(reward, reward, torch.full((3,), -np.log(3.0)))
    likelihood = torch.log_softmax(reward, 0).mean()
    np.testing.assert_allclose(uniform, -likelihood, rtol=1e-5)
    assert guided_cost_error(expert, agent) == guided_cost_error(expert, agent, agent * 0)
