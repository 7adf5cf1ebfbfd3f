"""ACER: an update against the formulas, the average policy, exact resuming."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from gymnasium import spaces

from dicore.data import Batch
from dicore.errors import ConfigError
from tests.plugins.policies.resuming import same_after_resume
from tests.plugins.policies.test_actor_critic import BOX, block_of, policy_of
from tests.plugins.policies.test_ppo import moved

LENGTH = 4


def acer(*options: str, actions: Any = spaces.Discrete(3)) -> Any:  # noqa: B008 - a constant
    return policy_of("acer", actions, f"policy.collect.unroll_len={LENGTH}", *options)


def samples_of(policy: Any) -> Batch:
    block, tail, _ = block_of(policy, steps=2 * LENGTH)
    found: Batch = policy.collect_mode.get_train_sample(block, tail)
    return found


@pytest.mark.parametrize("region", [1.0, 0.01, None])
def test_an_update_equals_the_formula(region: float | None) -> None:
    option = "null" if region is None else str(region)
    policy = acer(
        f"policy.learn.trust_region={option}", "policy.learn.weight_clip=0.8",
        "policy.learn.max_grad_norm=null",
    )  # fmt: skip
    samples = samples_of(policy)
    average = copy.deepcopy(policy.get_attribute("model"))
    model = moved(policy).get_attribute("model")
    batch = samples.to_torch()
    flat = {key: each.flatten(0, 1) for key, each in batch.items() if each.dim() > 1}
    with torch.no_grad():
        q, next_output = model(flat["obs"])["q_value"], model(flat["next_obs"])
        mean = torch.softmax(average(flat["obs"])["logit"], 1)
    logit = model(flat["obs"])["logit"].detach().double().requires_grad_()
    log_pi, mu, count = torch.log_softmax(logit, 1), torch.softmax(flat["logit"], 1), len(logit)
    pi, at = log_pi.exp().detach(), (torch.arange(count), flat["action"])
    assert (pi[at] / mu[at]).log().abs().max() > 0.1
    value, next_value = (
        (pi * q).sum(1),
        (torch.softmax(next_output["logit"], 1) * next_output["q_value"]).sum(1),
    )
    target = torch.zeros(count, dtype=torch.float64)
    for i in reversed(range(count)):
        last = (i + 1) % LENGTH == 0 or bool(flat["end"][i])
        ahead = (
            next_value[i]
            if last
            else next_value[i]
            + (pi[at] / mu[at])[i + 1].clamp(max=1) * (target[i + 1] - q[at][i + 1])
        )
        target[i] = flat["reward"][i] + 0.99 * (1 - flat["done"][i]) * ahead
    rho = pi / mu
    first = rho[at].clamp(max=0.8) * (target - value) * log_pi[at]
    second = (1 - 0.8 / rho).clamp(min=0) * pi * (q - value[:, None]) * log_pi
    objective = first.sum() + second.sum()
    (gradient,) = torch.autograd.grad(objective, logit, retain_graph=True)
    if region is not None:
        (k,) = torch.autograd.grad((mean * (mean.log() - log_pi)).sum(), logit)
        excess = ((k * gradient).sum(1) - region).clamp(min=0) / k.square().sum(1)
        assert (excess > 0).sum() > (5 if region < 1 else 0)
        gradient = gradient - excess[:, None] * k
    twin = copy.deepcopy(model)
    output = twin(flat["obs"])
    log_p = torch.log_softmax(output["logit"], 1)
    entropy = -(log_p.exp() * log_p).sum(1).mean()
    value_loss = (output["q_value"][at] - target.float()).square().mean()
    surrogate = -(gradient.float() * output["logit"]).sum(1).mean()
    (surrogate + 0.5 * value_loss - 0.001 * entropy).backward()
    (result,) = policy.learn_mode.forward(samples)
    torch.testing.assert_close(result["policy_loss"], -(objective / count).detach().float())
    torch.testing.assert_close(result["value_loss"], value_loss.detach())
    torch.testing.assert_close(result["entropy"], entropy.detach())
    pairs = zip(model.parameters(), twin.parameters(), strict=True)
    for found, wanted in pairs:
        assert found.grad is not None
        if wanted.grad is not None:
            torch.testing.assert_close(found.grad, wanted.grad, rtol=1e-3, atol=1e-6)


def test_the_average_policy_follows() -> None:
    policy = acer("policy.learn.average_theta=0.25")
    before = policy._average_flat.data.clone()
    policy.learn_mode.forward(samples_of(policy))
    now = policy._flat.data
    torch.testing.assert_close(policy._average_flat.data, before + 0.25 * (now - before))
    twin = acer()
    twin.learn_mode.load_state_dict(copy.deepcopy(policy.learn_mode.state_dict()))
    assert torch.equal(twin._average_flat.data, policy._average_flat.data)


@pytest.mark.parametrize("norm", ["false", "true"])
def test_a_resumed_run_equals_an_uninterrupted_one(norm: str, tmp_path: Path) -> None:
    options = [f"policy.model.obs_norm={norm}"]
    one, two = same_after_resume("acer", "cartpole", options, tmp_path, 256)
    assert all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("actions", [BOX, spaces.MultiDiscrete([2, 3])], ids=["box", "multi"])
def test_other_actions_are_refused(actions: Any) -> None:
    with pytest.raises(ConfigError, match="'acer' needs one discrete action"):
        acer(actions=actions)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("policy.on_policy=true", "on_policy: acer learns from a replay buffer"),
        ("policy.learn.adv_norm=true", "adv_norm: acer bounds its gradient"),
        ("policy.model.value_norm=true", "value_norm"),
    ],
)
def test_options_that_contradict_each_other_are_refused(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        acer(override)


def test_terminal_observations_may_forbid_all_actions() -> None:
    observed = spaces.Dict({"action_mask": spaces.MultiBinary(3), "seen": BOX})
    policy = policy_of("acer", spaces.Discrete(3), observed=observed)
    seen = torch.randn(2, 2, generator=torch.Generator().manual_seed(0))
    obs = {"action_mask": torch.zeros(2, 3), "seen": seen}
    with torch.no_grad():
        output = policy.get_attribute("model")(obs)
        wanted = (torch.softmax(output["logit"], 1) * output["q_value"]).sum(1)
        torch.testing.assert_close(policy._state_value(obs), wanted)
