"""REDQ and DroQ: targets of random networks, means, delays and normalised layers in plain NumPy."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from dicore.errors import ConfigError
from dicore.run.random import stream
from dicore_plugins.models import QAC
from tests.plugins.policies.test_continuous_q import (
    GAMMA,
    ROWS,
    forward,
    layers,
    policy_of,
    q_of,
    rows,
    squashed,
    unit,
)


@pytest.mark.parametrize("chosen", [2, 4, None])
def test_an_update_of_redq_equals_the_formulas(chosen: int | None) -> None:
    policy = policy_of(
        "redq", "policy.model.num_critics=4", f"policy.learn.target_critics={chosen or 'null'}",
        "policy.learn.alpha=0.3", "policy.learn.actor_update_freq=1",
    )  # fmt: skip
    batch, rng = rows(), copy.deepcopy(stream("policy/learn"))
    model, target = policy.get_attribute("model"), policy.get_attribute("target_model")
    actor = layers(model.actor)
    action, log_prob = squashed(
        forward(actor, batch["next_obs"]), rng.standard_normal((ROWS, 2), np.float32)
    )
    some = rng.choice(4, 2, replace=False) if chosen == 2 else range(4)
    future = q_of(target, batch["next_obs"], action)[list(some)].min(0) - 0.3 * log_prob
    y = batch["reward"] + GAMMA * (1 - batch["done"]) * future
    error = q_of(model, batch["obs"], unit(batch["action"])) - y
    found = policy.learn_mode.forward(batch)
    assert found["critic_loss"].item() == pytest.approx((error**2).mean(1).sum(), rel=1e-4)
    action, log_prob = squashed(
        forward(actor, batch["obs"]), rng.standard_normal((ROWS, 2), np.float32)
    )
    value = q_of(model, batch["obs"], action).mean(0)
    assert found["actor_loss"].item() == pytest.approx((0.3 * log_prob - value).mean(), rel=1e-3)


def test_the_subsets_of_targets_change() -> None:
    policy = policy_of("redq", "policy.model.num_critics=3")
    q = torch.arange(3.0)[:, None].expand(3, 5)
    assert {policy._least(q)[0].item() for _ in range(40)} == {0.0, 1.0}


def test_the_actor_waits_and_the_target_does_not() -> None:
    policy = policy_of("redq", "policy.learn.actor_update_freq=3", "policy.learn.actor_value=min")
    flats, targets = (policy.get_attribute(name) for name in ("flats", "target_flats"))
    for index in range(6):
        actor, target = flats["actor"].data.clone(), targets["critic"].data.clone()
        found = policy.learn_mode.forward(rows(index))
        updated = index % 3 == 2
        assert torch.equal(actor, flats["actor"].data) != updated
        assert (found["actor_loss"] is not None) == updated
        assert not torch.equal(target, targets["critic"].data)


def normalised(model: Any, e: int, obs: Any, action: Any) -> Any:
    """Q values [B] of one network with normalised layers, in doubles."""
    x = np.concatenate([obs, action], 1).astype(np.float64)
    pairs = zip(model.critic.weights, model.critic.biases, strict=True)
    for index, (weight, bias) in enumerate(pairs):
        if index:
            x = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5)
            x = np.maximum(x, 0)
        x = x @ weight[e].detach().double().numpy() + bias[e].detach().double().numpy()
    return x[:, 0]


def test_an_update_of_droq_equals_the_formulas_without_dropout() -> None:
    policy = policy_of("droq", "policy.learn.alpha=0.3", "policy.model.critic_dropout=0")
    batch, rng = rows(), copy.deepcopy(stream("policy/learn"))
    model, target = policy.get_attribute("model"), policy.get_attribute("target_model")
    action, log_prob = squashed(
        forward(layers(model.actor), batch["next_obs"]), rng.standard_normal((ROWS, 2), np.float32)
    )
    q = np.stack([normalised(target, e, batch["next_obs"], action) for e in range(2)])
    y = batch["reward"] + GAMMA * (1 - batch["done"]) * (q.min(0) - 0.3 * log_prob)
    taken = [normalised(model, e, batch["obs"], unit(batch["action"])) for e in range(2)]
    loss = sum(((each - y) ** 2).mean() for each in taken)
    assert policy.learn_mode.forward(batch)["critic_loss"].item() == pytest.approx(loss, rel=1e-4)


def test_units_are_dropped_by_updates_and_targets_alone() -> None:
    policy = policy_of("droq", "policy.model.critic_dropout=0.5")
    obs, action = torch.zeros(1, 3), torch.zeros(1, 2)
    for name in ("model", "target_model"):
        network = policy.get_attribute(name)
        assert len({network.q(obs, action)[0].item() for _ in range(20)}) > 5
    acting = copy.deepcopy(policy.get_attribute("model")).eval()
    assert len({acting.q(obs, action)[0].item() for _ in range(20)}) == 1


def test_dropout_keeps_the_mean_of_the_units() -> None:
    torch.manual_seed(0)
    net = QAC(3, 2, critic_hidden_size_list=[1], critic_dropout=0.25, num_critics=1)
    weights, biases = net.critic.weights, net.critic.biases
    with torch.no_grad():
        weights[0].zero_()
        biases[0].fill_(3.0)
        weights[1].fill_(1.0)
        biases[1].zero_()
    q = net.q(torch.zeros(20_000, 3), torch.zeros(20_000, 2))[0]
    assert sorted(set(q.tolist())) == [0.0, 4.0]
    assert q.mean().item() == pytest.approx(3.0, abs=0.05)


def test_more_networks_than_there_are_cannot_be_chosen() -> None:
    with pytest.raises(ConfigError, match=r"learn.target_critics: must be <= 2, model.num_critics"):
        policy_of("droq", "policy.learn.target_critics=3")
    with pytest.raises(ConfigError, match=r"model.critic_dropout: is not available with batch"):
        policy_of("crossq", "policy.model.critic_dropout=0.1")
