"""Networks that agents do not share are clipped each by its own norm."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch

from dicore_agents.models.actor_critic import AgentsVAC
from dicore_agents.models.agent_q import AgentQ
from dicore_agents.policies.apart import ClipApart, advantages_apart, networks_that_act
from dicore_plugins.optimizers import FlatSGD
from tests.agents.policies.actor_critic.games import made, team_spec


@pytest.mark.parametrize("rnn", [None, "gru"])
def test_each_gradient_is_that_of_a_training_alone(rnn: str | None) -> None:
    torch.manual_seed(0)
    shape = {"obs_shape": 3, "action_shape": 2, "agents": 3, "groups": [0, 1, 1]}
    model = AgentsVAC(**shape, share="group", critic_input="own", rnn=rnn, hidden_size_list=[4])
    optimizer = FlatSGD(model, 1.0, max_grad_norm=0.5)
    clip = ClipApart.of(optimizer, model, torch.tensor(model.networks))
    assert clip is not None
    rows = torch.tensor([0, 1, 1, 1])
    for kept, size in ((None, 1.0), (rows, 1e-3)):
        clip.see(kept)
        before = deepcopy(model.state_dict())
        optimizer.zero_grad()
        for each in model.parameters():
            each.grad.copy_(torch.randn_like(each).mul_(size))
        grads = {name: each.grad.clone() for name, each in model.named_parameters()}
        optimizer.step()
        after = model.state_dict()
        for network in (0, 1):
            share = torch.tensor([1 / 3, 2 / 3] if kept is None else [1 / 4, 3 / 4])[network]
            own = {name: _part(name, each, network) / share for name, each in grads.items()}
            own = {name: each for name, each in own.items() if each.numel()}
            norm = torch.cat([each.flatten() for each in own.values()]).norm()
            for name, each in own.items():
                moved = _part(name, before[name] - after[name], network)
                wanted = each * min(1.0, 0.5 / float(norm))
                torch.testing.assert_close(moved, wanted, rtol=1e-4, atol=1e-6)


def _part(name: str, tensor: torch.Tensor, network: int) -> torch.Tensor:
    """Returns what a network has of a tensor."""
    if not name.startswith("rnn.layers."):
        return tensor[network]
    return tensor if name.split(".")[2] == str(network) else tensor[:0]


def test_what_is_shared_is_clipped_by_the_optimizer() -> None:
    shape = {"obs_shape": 3, "action_shape": 2, "agents": 2}
    for model, limit in ((AgentQ(**shape), 0.5), (AgentQ(**shape, share="none"), None)):
        optimizer = FlatSGD(model, 1.0, max_grad_norm=limit)
        assert ClipApart.of(optimizer, model, torch.tensor(model.networks)) is None
        assert optimizer.max_grad_norm == limit


def test_advantages_are_scaled_in_each_network() -> None:
    alive = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 0, 1]])
    network = networks_that_act(torch.tensor([0, 2, 1]), alive.shape, alive)
    assert network.tolist() == [0, 2, 1, 0, 0, 1]
    found = advantages_apart(torch.tensor([1.0, 7, 100, 2, 3, 300]), network, 4)
    half = 0.5**0.5
    torch.testing.assert_close(found, torch.tensor([-1.0, 7, -half, 0, 1, half]))


def test_independent_q_networks_are_clipped_apart() -> None:
    model, learn = {"share": "none"}, {"max_grad_norm": 0.5}
    policy = made("independent_q", team_spec(), learn=learn, model=model)
    assert policy.get_attribute("optimizer").max_grad_norm is None
