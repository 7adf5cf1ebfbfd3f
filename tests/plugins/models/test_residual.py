"""SimBa: residual networks in plain NumPy; as networks of SAC and of TD3."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from dicore.errors import ConfigError
from dicore.run.random import stream
from dicore_plugins.models import ResidualMLP
from tests.plugins.policies.test_continuous_q import GAMMA, ROWS, policy_of, rows, squashed, unit


def norm(x: Any) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)


def output_of(mlp: Any, e: int, x: Any) -> Any:
    """Outputs [B, N] of one network, block after block, in doubles."""
    w, b, scale, shift = (
        [each[e].detach().double().numpy() for each in group]
        for group in (mlp.weights, mlp.biases, mlp.scales, mlp.shifts)
    )
    h = x @ w[0] + b[0]
    for block in range(len(scale) - 1):
        first, second = 1 + 2 * block, 2 + 2 * block
        inner = (norm(h) * scale[block] + shift[block]) @ w[first] + b[first]
        h = h + np.maximum(inner, 0) @ w[second] + b[second]
    return (norm(h) * scale[-1] + shift[-1]) @ w[-1] + b[-1]


def made() -> ResidualMLP:
    torch.manual_seed(0)
    mlp = ResidualMLP(2, (3, 8, 8, 2))
    with torch.no_grad():
        for each in mlp.parameters():
            each.add_(torch.randn_like(each), alpha=0.3)
    return mlp


def test_the_network_is_that_of_the_paper() -> None:
    mlp, x = made(), torch.randn(5, 3)
    assert [tuple(each.shape) for each in mlp.weights] == [
        (2, 3, 8), (2, 8, 32), (2, 32, 8), (2, 8, 32), (2, 32, 8), (2, 8, 2),
    ]  # fmt: skip
    found = mlp.forward(x).detach().numpy()
    for e in range(2):
        wanted = output_of(mlp, e, x.double().numpy())
        np.testing.assert_allclose(found[e], wanted, rtol=1e-4, atol=1e-5)


def test_a_frozen_network_has_no_gradient_and_its_input_has() -> None:
    mlp, x = made(), torch.randn(5, 3, requires_grad=True)
    mlp.forward(x, frozen=True).sum().backward()
    assert x.grad is not None
    assert x.grad.abs().sum() > 0
    assert all(each.grad is None for each in mlp.parameters())
    assert not mlp.differentiable()
    assert mlp.by_numpy() is None


def test_an_update_of_simba_is_that_of_sac_with_normalised_observations() -> None:
    policy = policy_of("simba", "policy.learn.alpha=0.3")
    batch, rng = rows(), copy.deepcopy(stream("policy/learn"))
    model, target = policy.get_attribute("model"), policy.get_attribute("target_model")
    mean, std = batch["obs"].mean(0), batch["obs"].std(0)
    obs, after = ((batch[key] - mean) / std for key in ("obs", "next_obs"))
    output = output_of(model.actor, 0, after.astype(np.float64))
    action, log_prob = squashed(output, rng.standard_normal((ROWS, 2), np.float32))

    def q_of(network: Any, seen: Any, chosen: Any) -> Any:
        x = np.concatenate([seen, chosen], 1).astype(np.float64)
        return np.stack([output_of(network.critic, e, x)[:, 0] for e in range(2)])

    future = q_of(target, after, action).min(0) - 0.3 * log_prob
    y = batch["reward"] + GAMMA * (1 - batch["done"]) * future
    loss = ((q_of(model, obs, unit(batch["action"])) - y) ** 2).mean(1).sum()
    found = policy.learn_mode.forward(batch)
    assert found["critic_loss"].item() == pytest.approx(loss, rel=1e-3)
    assert found["actor_loss"] is not None


@pytest.mark.parametrize("name", ["td3", "ddpg", "redq"])
def test_other_algorithms_have_the_network_too(name: str) -> None:
    policy = policy_of(name, "policy.model.type=simba", "policy.learn.actor_update_freq=1")
    model, batch = policy.get_attribute("model"), rows()
    assert isinstance(model.critic, ResidualMLP)
    assert isinstance(model.actor, ResidualMLP)
    before = model.actor.weights[0].clone()
    assert torch.isfinite(policy.learn_mode.forward(batch)["total_loss"])
    assert not torch.equal(model.actor.weights[0], before)
    acted = policy.eval_mode.forward(dict(enumerate(batch["obs"]))).value["action"]
    assert acted.shape == (ROWS, 2)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("critic_hidden_size_list=[8,16]", r"critic_hidden_size_list: .*equal size, got \[8, 16\]"),
        ("actor_hidden_size_list=[]", r"actor_hidden_size_list: expected one block or more"),
        ("gsde=true", r"gsde: is not available with residual blocks; leave it out"),
        ("critic_layer_norm=true", r"critic_layer_norm: is not available with residual blocks"),
    ],
)
def test_what_residual_networks_do_not_have(option: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"policy.model.{message}"):
        policy_of("simba", f"policy.model.{option}")
