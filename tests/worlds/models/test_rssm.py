"""RSSM: one scan over time equals single steps, and imagining needs no gradient."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from dicore_worlds import RSSM, LatentState, SupportsLatent

T, B, E, A, D, G, C = 5, 3, 6, 2, 8, 4, 3


@pytest.fixture
def rssm() -> RSSM:
    torch.manual_seed(0)
    return RSSM(E, A, deter=D, units=7, groups=G, classes=C)


def test_supports_latent(rssm: RSSM) -> None:
    assert isinstance(rssm, SupportsLatent)
    state = rssm.initial(B)
    assert state.deter.shape == (B, D)
    assert state.stoch.shape == (B, G * C)
    assert not torch.cat(state, -1).any()


def test_observing_a_sequence_equals_single_steps(rssm: RSSM) -> None:
    embed, action = torch.randn(T, B, E), torch.rand(T, B, A)
    uniform = torch.rand(T, B, G)
    seen = rssm.observe(embed, action, rssm.initial(B), uniform)
    state = rssm.initial(B)
    for t in range(T):
        state, posterior = rssm.step(state, action[t], embed[t], uniform[t])
        torch.testing.assert_close(seen.state.deter[t], state.deter)
        torch.testing.assert_close(seen.state.stoch[t], state.stoch)
        torch.testing.assert_close(seen.posterior[t], posterior)
        torch.testing.assert_close(seen.prior[t], rssm.prior(state.deter))


def test_layers_that_are_computed_in_parts_are_those_of_the_whole(rssm: RSSM) -> None:
    """The equations of the model, written with whole layers."""
    before = LatentState(torch.randn(B, D), torch.rand(B, G * C))
    embed, action = torch.randn(B, E), torch.rand(B, A)
    state, posterior = rssm.step(before, action, embed, torch.rand(B, G))
    x = rssm.inputs(torch.cat([before.stoch, action], -1))
    gates = rssm.gates_norm(rssm.gates(torch.cat([x, before.deter], -1)))
    reset, candidate, update = (gates[:, at : at + D] for at in (0, D, 2 * D))
    candidate = torch.tanh(torch.sigmoid(reset) * candidate)
    update = torch.sigmoid(update - 1)
    torch.testing.assert_close(state.deter, update * candidate + (1 - update) * before.deter)
    logit = rssm.posterior_out(rssm.posterior_hidden(torch.cat([state.deter, embed], -1)))
    mixed = 0.99 * logit.view(B, G, C).softmax(-1) + 0.01 / C
    torch.testing.assert_close(posterior.exp(), mixed)


def test_what_is_drawn_is_one_class_of_each_variable(rssm: RSSM) -> None:
    seen = rssm.observe(torch.randn(T, B, E), torch.rand(T, B, A), rssm.initial(B))
    stoch = seen.state.stoch.detach().view(T, B, G, C)
    torch.testing.assert_close(stoch.sum(-1), torch.ones(T, B, G))
    torch.testing.assert_close(stoch.max(-1).values, torch.ones(T, B, G))


def test_imagined_steps_follow_the_actor(rssm: RSSM) -> None:
    start = LatentState(torch.randn(B, D), torch.rand(B, G * C))
    given: list[LatentState] = []

    def actor(state: LatentState) -> Tensor:
        given.append(state)
        return torch.full((B, A), float(len(given)) / 10)

    dream = rssm.imagine(start, actor, 4)
    assert dream.action[:, 0, 0].tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])
    assert dream.state.deter.shape == (5, B, D)
    assert not dream.state.deter.requires_grad
    for t, state in enumerate(given):
        torch.testing.assert_close(state.deter, dream.state.deter[t])
    after = rssm.predict(given[2], dream.action[2], torch.rand(B, G))
    torch.testing.assert_close(after.deter, dream.state.deter[3])


def test_gradients_reach_the_first_state(rssm: RSSM) -> None:
    state = rssm.initial(B)
    first = LatentState(state.deter.requires_grad_(), state.stoch)
    rssm.observe(torch.randn(T, B, E), torch.rand(T, B, A), first).state.deter[-1].sum().backward()
    assert state.deter.grad is not None
    assert state.deter.grad.abs().max() > 0


def test_large_actions_count_as_the_bounds(rssm: RSSM) -> None:
    state, uniform = rssm.initial(B), torch.rand(B, G)
    one = rssm.predict(state, torch.full((B, A), 7.0), uniform)
    other = rssm.predict(state, torch.ones(B, A), uniform)
    torch.testing.assert_close(one.deter, other.deter)
