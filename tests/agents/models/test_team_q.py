"""Centralised Q networks: which network an agent has, and what it sees."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dicore_agents.models.team_q import TeamCritic, TeamQAC

ROWS, AGENTS = 6, 3


@pytest.mark.parametrize("networks", [(0, 0, 0), (1, 0, 1), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("alike", [False, True], ids=["own rows", "same rows"])
def test_each_agent_has_its_network(networks: tuple[int, ...], alike: bool) -> None:
    critic = TeamCritic(2, (4, 8, 5), networks, "relu")
    x = torch.randn((ROWS, 4) if alike else (ROWS, AGENTS, 4))
    found = critic(x)
    assert found.shape == (2, ROWS, AGENTS, 5)
    for agent, network in enumerate(networks):
        own = x if alike else x[:, agent]
        if critic.separate:
            wanted = critic.parts[0](own)[[agent, AGENTS + agent]]
        else:
            wanted = critic.parts[network](own)
        assert torch.allclose(found[:, :, agent], wanted, atol=1e-6)


def model(**options: Any) -> TeamQAC:
    torch.manual_seed(0)
    return TeamQAC(2, 2, AGENTS, 2 * AGENTS, **{"share": "none", "num_critics": 2, **options})


def seen(**more: Any) -> dict[str, Any]:
    return {"obs": torch.randn(ROWS, AGENTS, 2), **more}


@pytest.mark.parametrize("share", ["all", "none"])
def test_a_critic_sees_the_new_action_of_its_agent_and_old_ones_of_the_others(share: str) -> None:
    net, obs = model(share=share), seen()
    old, new = torch.rand(2, ROWS, AGENTS, 2)
    found = net.q(obs, old, new)
    for agent in range(AGENTS):
        joint = old.clone()
        joint[:, agent] = new[:, agent]
        assert torch.allclose(found[..., agent], net.q(obs, joint)[..., agent], atol=1e-6)


def test_a_soft_critic_of_discrete_actions_does_not_see_its_own() -> None:
    net, obs = model(discrete=True, soft=True), seen()
    one, other = torch.rand(2, ROWS, AGENTS, 2)
    other[:, 1:] = one[:, 1:]
    changed = (net.q(obs, one) != net.q(obs, other)).any(0).any(0).any(-1)
    assert changed.tolist() == [False, True, True]


def test_a_frozen_critic_gets_no_gradient_but_the_action_does() -> None:
    net, old = model(), torch.rand(ROWS, AGENTS, 2)
    new = torch.rand(ROWS, AGENTS, 2, requires_grad=True)
    net.q(seen(), old, new, frozen=True).sum().backward()
    assert new.grad is not None
    assert new.grad.abs().sum() > 0
    assert all(each.grad is None for each in net.parameters())


def test_critics_see_the_state_unless_they_see_all_observations() -> None:
    action, state = torch.rand(ROWS, AGENTS, 2), torch.randn(ROWS, 2 * AGENTS)
    obs = seen()
    for sees, same in ((None, False), ("state", False), ("observations", True)):
        net = model(critic_sees=sees)
        equal = torch.equal(net.q({**obs, "state": state}, action), net.q(obs, action))
        assert equal is same


def test_what_an_agent_shows_that_does_not_act_is_not_seen() -> None:
    net, alive = model(), torch.ones(ROWS, AGENTS, dtype=torch.int8)
    alive[:, 1] = 0
    obs, action = seen(alive=alive), torch.rand(ROWS, AGENTS, 2)
    other = {**obs, "obs": obs["obs"].clone()}
    other["obs"][:, 1] = torch.nan
    changed = action.clone()
    changed[:, 1] = torch.nan
    assert torch.equal(net.q(obs, action), net.q(other, changed))
    assert torch.equal(net(obs)["mean"], net(other)["mean"])


@pytest.mark.parametrize("form", [{}, {"soft": True}, {"discrete": True}], ids=str)
@pytest.mark.parametrize("share", ["all", "none"])
def test_numpy_acts_as_the_network_does(form: dict[str, Any], share: str) -> None:
    net, obs = model(share=share, **form), seen(alive=torch.ones(ROWS, AGENTS))
    obs["alive"][:, 0] = 0
    act = net.act_numpy()
    assert act is not None
    acted, wanted = act({key: each.numpy() for key, each in obs.items()}), net(obs)
    assert acted.keys() == wanted.keys()
    for key, each in acted.items():
        np.testing.assert_allclose(each, wanted[key].detach(), atol=1e-5)
