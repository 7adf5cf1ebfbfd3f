"""A network as a model to search with: NumPy for few states gives what torch gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from dicore_worlds.models.muzero import MuZeroNet
from dicore_worlds.planning.config import GumbelConfig, PUCTConfig
from dicore_worlds.planning.network import NetworkModel
from dicore_worlds.planning.tree import Leaf


def random_net(layers: int) -> MuZeroNet:
    torch.manual_seed(0)
    net = MuZeroNet(4, 3, latent=8, units=16, layers=layers, bins=21)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return net


class Derived(MuZeroNet):
    """Might compute something else, so torch asks it."""


@pytest.mark.parametrize("layers", [1, 2])
def test_few_states_are_stepped_as_by_torch(layers: int) -> None:
    net = random_net(layers)
    rows = torch.rand(200, 8)
    action = np.arange(200) % 3
    many = NetworkModel(net, 0.9).step(rows, action)  # above what NumPy is used for
    few = NetworkModel(net, 0.9).step(rows[:7], action[:7])
    for name in ("state", "logit", "value", "reward", "discount"):
        wanted, found = (np.asarray(getattr(each, name)) for each in (many, few))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted[:7], rtol=1e-4, atol=1e-5)
    assert np.ptp(few.value) > 0.1


@pytest.mark.parametrize("planner", ["puct", "gumbel"])
def test_rewards_are_differences_of_sums_that_begin_again(planner: str) -> None:
    """A path of seven steps by hand, with an LSTM that begins anew after three."""
    torch.manual_seed(0)
    net = MuZeroNet(4, 3, latent=8, units=16, bins=21, value_prefix=3)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    searched, first = NetworkModel(net, 0.9), torch.rand(2, 8)
    assert net.sums is not None
    state, latent, total = searched.root(first), first, torch.zeros(2)
    hidden, actions = None, [np.array([k % 3, (k + 1) % 3]) for k in range(7)]
    with torch.no_grad():
        for k, action in enumerate(actions):
            leaf = searched.step(state, action)
            latent = net.follow(latent, torch.from_numpy(action))[0]
            if k % 3 == 0:
                hidden, total = None, torch.zeros(2)
            output, hidden = net.sums(latent, hidden)
            now = net.mean(net.reward(output))
            np.testing.assert_allclose(leaf.reward, now - total, rtol=1e-4, atol=1e-5)
            np.testing.assert_allclose(leaf.state["latent"], latent, atol=1e-6)
            state, total = leaf.state, now
    assert np.ptp(leaf.reward) > 1e-3
    cfg = {"puct": PUCTConfig(simulations=6), "gumbel": GumbelConfig(simulations=6)}[planner]
    none = np.zeros(2, np.float32)
    root = Leaf(searched.root(first), np.zeros((2, 3), np.float32), none, none, none)
    plan = cfg.build(None).plan(searched, root, np.random.default_rng(0), explore=False)
    assert np.isfinite(plan.value).all()
    assert plan.policy.sum(1) == pytest.approx(1.0, abs=1e-5)


def test_other_networks_are_asked_themselves() -> None:
    net = random_net(1)
    derived = Derived(4, 3, latent=8, units=16, bins=21)
    derived.load_state_dict(net.state_dict())
    derived.mean = lambda logit: torch.full(logit.shape[:-1], 7.0)  # type: ignore[method-assign]
    found = NetworkModel(derived, 0.9).step(torch.rand(2, 8), np.zeros(2, np.int64))
    assert found.value.tolist() == [7, 7]


def test_a_search_follows_the_parameters_of_its_moment() -> None:
    net, state, action = random_net(1), torch.rand(2, 8), np.zeros(2, np.int64)
    before = NetworkModel(net, 0.9).step(state, action).value
    with torch.no_grad():
        net.value.bias[0] += 5
    after = NetworkModel(net, 0.9).step(state, action).value
    assert (after < before - 1).all()
