from __future__ import annotations

import numpy as np
import pytest
import torch

from dicore_agents.models.agent_mlp import AgentMLP, networks_of
from dicore_plugins.models import MLP


def alone(network: AgentMLP, number: int) -> MLP:
    """Returns the network of one agent with the same parameters."""
    made = MLP([4, 8, 3], network.activation)
    for layer, weight, bias in zip(made.layers, network.weights, network.biases, strict=True):
        layer.weight.data = weight[number].T.contiguous()
        layer.bias.data = bias[number, 0]
    return made


@pytest.mark.parametrize("activation", ["relu", "tanh", "elu"])
@pytest.mark.parametrize("share", ["all", "group", "none"])
def test_agents_are_computed_as_by_networks_of_their_own(share: str, activation: str) -> None:
    groups = (0, 1, 0)
    networks = networks_of(share, groups)  # type: ignore[arg-type] # a parameter
    assert networks == {"all": (0, 0, 0), "group": groups, "none": (0, 1, 2)}[share]
    torch.manual_seed(0)
    network = AgentMLP([4, 8, 3], networks, activation)  # type: ignore[arg-type] # a parameter
    x = torch.randn(5, 3, 4)
    found = network(x)
    for agent, number in enumerate(networks):
        own = network.shared if network.shared is not None else alone(network, number)
        torch.testing.assert_close(found[:, agent], own(x[:, agent]))
    act = network.by_numpy()
    assert act is not None
    np.testing.assert_allclose(act(x.numpy()), found.detach().numpy(), atol=1e-6)


def test_networks_of_agents_start_as_single_ones_do() -> None:
    network = AgentMLP([4, 8, 3], (0, 1))
    weight = network.weights[0].detach()
    assert not torch.equal(weight[0], weight[1])
    product = weight[0] @ weight[0].T
    torch.testing.assert_close(product, 2 * torch.eye(4), atol=1e-5, rtol=1e-5)  # orthogonal
    assert not network.biases[0].any()
