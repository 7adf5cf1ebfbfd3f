"""TQC, CrossQ, D4PG and gSDE: losses in plain NumPy, delays, truncation, held noise."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dicore.errors import ConfigError, UsageError
from dicore.run.launch import launch
from dicore_plugins.functional import truncated_quantiles
from dicore_plugins.models import QAC, BatchRenorm, StateDependentActor
from dicore_plugins.policies import HeldNoise, TQCPolicy
from tests.plugins.policies.test_continuous_q import (
    GAMMA,
    ROWS,
    forward,
    layers,
    noise_of,
    policy_of,
    rows,
    squashed,
    unit,
)


def outputs_of(model: Any, obs: Any, action: Any) -> Any:
    """Outputs [E, B, N] of the critics in doubles."""
    x = np.concatenate([obs, action], 1).astype(np.float64)
    weights = [each.detach().double().numpy() for each in model.critic.weights]
    biases = [each.detach().double().numpy() for each in model.critic.biases]
    return np.stack(
        [
            forward([(w[e], b[e, 0]) for w, b in zip(weights, biases, strict=True)], x)
            for e in range(len(weights[0]))
        ]
    )


def quantile_loss(quantiles: Any, target: Any, fraction: Any) -> Any:
    """Quantile Huber losses [N] of one sample and one network, by loops."""
    losses = []
    for theta, tau in zip(quantiles, fraction, strict=True):
        error = target - theta
        huber = np.where(np.abs(error) <= 1, error**2 / 2, np.abs(error) - 0.5)
        losses.append((np.abs(tau - (error < 0)) * huber).mean())
    return np.array(losses)


def test_an_update_of_tqc_equals_the_formulas() -> None:
    policy = policy_of(
        "tqc", "policy.learn.alpha=0.3", "policy.learn.top_quantiles_to_drop=2",
        "policy.model.num_quantiles=5", "policy.model.num_critics=3",
    )  # fmt: skip
    batch = rows()
    model, target_model = policy.get_attribute("model"), policy.get_attribute("target_model")
    first, second = noise_of(2)
    actor = layers(model.actor)
    action, log_prob = squashed(forward(actor, batch["next_obs"]), first)
    after = outputs_of(target_model, batch["next_obs"], action)
    found = outputs_of(model, batch["obs"], unit(batch["action"]))
    fraction, loss = (np.arange(5) + 0.5) / 5, 0.0
    for b in range(ROWS):
        kept = np.sort(after[:, b].ravel())[: 3 * (5 - 2)]
        y = batch["reward"][b] + GAMMA * (1 - batch["done"][b]) * (kept - 0.3 * log_prob[b])
        loss += sum(quantile_loss(found[e, b], y, fraction).mean() for e in range(3)) / ROWS
    result = policy.learn_mode.forward(batch)
    assert result["critic_loss"].item() == pytest.approx(loss, rel=1e-4)
    assert result["q_value"].item() == pytest.approx(found.mean(), rel=1e-4)
    action, log_prob = squashed(forward(actor, batch["obs"]), second)
    value = outputs_of(model, batch["obs"], action).mean((0, 2))
    assert result["actor_loss"].item() == pytest.approx((0.3 * log_prob - value).mean(), rel=1e-3)


def test_the_largest_quantiles_of_all_networks_are_dropped() -> None:
    quantile = torch.tensor([[[1.0, 9.0, 3.0]], [[8.0, 2.0, 7.0]]])
    assert truncated_quantiles(quantile, 1).tolist() == [[1, 2, 3, 7]]
    assert truncated_quantiles(quantile, 0).tolist() == [[1, 2, 3, 7, 8, 9]]
    with pytest.raises(ConfigError, match=r"top_quantiles_to_drop.*must be < 5"):
        policy_of("tqc", "policy.model.num_quantiles=5", "policy.learn.top_quantiles_to_drop=5")
    with pytest.raises(UsageError, match=r"is not a network with .*outputs and fraction"):
        TQCPolicy(model=QAC(3, 2))


def renormed(parameters: list[Any], x: Any, statistics: list[Any]) -> Any:
    """One network with batch normalisation by the batch; appends the statistics of each layer."""
    for index, (weight, bias, scale, shift) in enumerate(parameters):
        x = np.maximum(x, 0) if index else x
        statistics.append((x.mean(0), x.var(0, ddof=1)))
        x = (x - x.mean(0)) / np.sqrt(x.var(0, ddof=1) + 1e-3) * scale + shift
        x = x @ weight + bias
    return x


def parameters_of(mlp: Any, e: int) -> list[Any]:
    return [
        tuple(each[e].detach().double().numpy() for each in (w, b, norm.scale, norm.shift))
        for w, b, norm in zip(mlp.weights, mlp.biases, mlp.norms, strict=True)
    ]


def test_an_update_of_crossq_equals_the_formulas() -> None:
    policy, batch = policy_of("crossq", "policy.learn.alpha=0.3"), rows()
    model = policy.get_attribute("model")
    assert policy.get_attribute("target_model") is None
    (first,) = noise_of(1)
    # acting normalises by running statistics, which are 0 and 1 at first
    actor = [
        (w * (scale / np.sqrt(1 + 1e-3))[0][:, None], b + shift @ w)
        for w, b, scale, shift in parameters_of(model.actor, 0)
    ]
    next_action, log_prob = squashed(forward(actor, batch["next_obs"]), first)
    x = np.concatenate(
        [
            np.concatenate([batch["obs"], unit(batch["action"])], 1),
            np.concatenate([batch["next_obs"], next_action], 1),
        ]
    )
    seen: list[list[Any]] = [[], []]
    q = np.stack([renormed(parameters_of(model.critic, e), x, seen[e])[:, 0] for e in range(2)])
    future = q[:, ROWS:].min(0) - 0.3 * log_prob
    y = batch["reward"] + GAMMA * (1 - batch["done"]) * future
    loss = ((q[:, :ROWS] - y) ** 2).mean(1).sum()
    before = [each.clone() for each in model.actor.parameters()]
    results = [policy.learn_mode.forward(batch)]
    assert results[0]["critic_loss"].item() == pytest.approx(loss, rel=1e-3)
    for index, norm in enumerate(model.critic.norms):
        mean, var = (np.stack([each[index][k] for each in seen]) for k in (0, 1))
        np.testing.assert_allclose(norm.mean[:, 0], 0.01 * mean, rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(norm.var[:, 0], 0.99 + 0.01 * var, rtol=1e-3)
    results += [policy.learn_mode.forward(batch) for _ in range(2)]
    assert [each["actor_loss"] is not None for each in results] == [False, False, True]
    assert not all(map(torch.equal, before, model.actor.parameters()))
    assert not model.critic.training
    assert not model.actor.training
    assert int(model.critic.norms[0].steps) == 3
    assert int(model.actor.norms[0].steps) == 1


def test_batch_renormalisation_is_that_of_the_paper() -> None:
    norm, generator = BatchRenorm(1, 2, warm_up=1), torch.Generator().manual_seed(0)
    x = torch.randn((2, 1, 64, 2), generator=generator) * 3 + 1
    first = norm.forward(x[0])[0]
    np.testing.assert_allclose(first.mean(0).detach(), 0, atol=1e-5)
    mean, var = norm.mean[0, 0].double().numpy(), norm.var[0, 0].double().numpy()
    second = norm.forward(x[1])[0].detach().numpy()
    rows_ = x[1, 0].double().numpy()
    own_mean, own = rows_.mean(0), np.sqrt(rows_.var(0, ddof=1) + 1e-3)
    running = np.sqrt(var + 1e-3)
    r, d = (own / running).clip(1 / 3, 3), ((own_mean - mean) / running).clip(-5, 5)
    np.testing.assert_allclose(second, (rows_ - own_mean) / own * r + d, rtol=1e-4, atol=1e-5)
    norm.eval()
    steps, kept = int(norm.steps), norm.mean.clone()
    still = norm.forward(x[0])[0].detach().numpy()
    assert int(norm.steps) == steps == 2
    assert torch.equal(norm.mean, kept)
    np.testing.assert_allclose(still, norm.by_numpy(x[0, 0].numpy()), rtol=1e-4, atol=1e-5)
    norm.train()
    norm.forward(torch.full((1, 4, 2), torch.nan))
    assert torch.equal(norm.mean, kept)


@pytest.mark.parametrize("frozen", [False, True])
def test_gradients_of_batch_renormalisation_are_those_of_autograd(frozen: bool) -> None:
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Any:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    norm = BatchRenorm(2, 3, warm_up=0).double()
    for each in norm.parameters():
        each.data = drawn(2, 1, 3)
    norm.mean, norm.var = drawn(2, 1, 3), drawn(2, 1, 3).square() * 20
    x, weight = (3 * drawn(2, 16, 3)).requires_grad_(), drawn(2, 16, 3)
    var, mean = torch.var_mean(x, 1, keepdim=True)
    r, d = copy.deepcopy(norm)._correction(mean.detach(), var.detach())
    assert (r == 1 / 3).sum() == 1  # one is bounded
    scale, shift = (each.detach() if frozen else each for each in (norm.scale, norm.shift))
    wanted = ((x - mean) / (var + 1e-3).sqrt() * r + d) * scale + shift
    found = norm(x, frozen=frozen)
    torch.testing.assert_close(found, wanted)
    by = [x] if frozen else [x, norm.scale, norm.shift]
    gradients = [
        torch.autograd.grad((y * weight).sum(), by, create_graph=True) for y in (found, wanted)
    ]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)
    again = [torch.autograd.grad(each[0].square().sum(), x)[0] for each in gradients]
    torch.testing.assert_close(*again)
    assert again[0].abs().max() > 0.01


def projected(probability: Any, reward: float, discount: float, atoms: Any) -> Any:
    """The projection of one distribution, by loops."""
    out, width = np.zeros(len(atoms)), atoms[1] - atoms[0]
    for p, z in zip(probability, atoms, strict=True):
        at = (min(max(reward + discount * z, atoms[0]), atoms[-1]) - atoms[0]) / width
        low = min(int(at + 1e-9), len(atoms) - 1)
        out[low] += p * (1 - (at - low))
        if low + 1 < len(atoms):
            out[low + 1] += p * (at - low)
    return out


def log_softmax(x: Any) -> Any:
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def test_an_update_of_d4pg_equals_the_formulas() -> None:
    gamma = np.where(np.arange(ROWS) % 2, GAMMA, GAMMA**3).astype(np.float32)
    weight = np.linspace(0.1, 1, ROWS, dtype=np.float32)
    policy = policy_of(
        "d4pg", "policy.model.n_atom=7", "policy.model.v_min=-2", "policy.model.v_max=2"
    )
    batch = rows(value_gamma=gamma, IS=weight)
    model, target_model = policy.get_attribute("model"), policy.get_attribute("target_model")
    atoms, actor = np.linspace(-2, 2, 7), layers(model.actor)
    action = np.tanh(forward(layers(target_model.actor), batch["next_obs"]))
    after = np.exp(log_softmax(outputs_of(target_model, batch["next_obs"], action)[0]))
    found = log_softmax(outputs_of(model, batch["obs"], unit(batch["action"]))[0])
    discount = gamma * (1 - batch["done"])
    y = np.stack([projected(after[b], batch["reward"][b], discount[b], atoms) for b in range(ROWS)])
    entropy = -(y * found).sum(1)
    result = policy.learn_mode.forward(batch)
    assert result["critic_loss"].item() == pytest.approx((entropy * weight).mean(), rel=1e-4)
    own = -(y * np.log(np.where(y > 0, y, 1))).sum(1)
    np.testing.assert_allclose(result["priority"], entropy - own, rtol=1e-3, atol=1e-5)
    action = np.tanh(forward(actor, batch["obs"]))
    value = np.exp(log_softmax(outputs_of(model, batch["obs"], action)[0])) @ atoms
    assert result["actor_loss"].item() == pytest.approx(-value.mean(), rel=1e-3, abs=1e-5)


def test_gsde_is_a_gaussian_over_the_weights_of_its_noise() -> None:
    torch.manual_seed(0)
    actor = StateDependentActor((3, 8, 2), "relu", -0.5)
    with torch.no_grad():
        actor.log_std.add_(torch.randn(8, 2), alpha=0.3)
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    output = {key: each.detach().numpy() for key, each in actor(torch.from_numpy(x)).items()}
    act = actor.by_numpy()
    assert act is not None
    for key, each in act(x).items():
        np.testing.assert_allclose(each, output[key], rtol=1e-4, atol=1e-5)
    theta = np.random.default_rng(1).standard_normal((200_000, 8, 1)) * output["noise_std"][:, :1]
    noise = output["features"] @ theta  # the first dimension, of many matrices
    np.testing.assert_allclose(noise.std(0)[:, 0], np.exp(output["log_std"][:, 0]), rtol=0.02)


def test_noise_is_kept_per_environment() -> None:
    noise = HeldNoise(np.random.default_rng(0), 3)
    both, one = np.array([0, 1]), np.array([1])
    first = noise.of(both, (2, 2))
    assert not np.array_equal(first[0], first[1])
    assert np.array_equal(noise.of(one, (2, 2))[0], first[1])
    state = noise.state_dict()
    third = noise.of(both, (2, 2))
    assert np.array_equal(third, first)
    fourth = noise.of(both, (2, 2))  # the third step of environment 0, the fourth of 1
    assert np.array_equal(fourth[0], first[0])
    assert not np.array_equal(fourth[1], first[1])
    again = HeldNoise(np.random.default_rng(9), 3)
    again.load_state_dict(state)
    assert np.array_equal(again.of(both, (2, 2)), first)


def test_a_resumed_run_with_gsde_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    def train(folder: str, steps: int, *, resume: bool = False) -> Any:
        given: dict[str, Any] = {
            "exp_name": str(tmp_path / folder), "env": "MountainCarContinuous-v0",
            "policy": "sac", "seed": 0,
            "overrides": ["pipeline.logger=[]", "env.n_evaluator_episode=1",
                          "env.evaluator_env_num=1", "policy.collect.random_collect_size=16",
                          "policy.learn.batch_size=16", "policy.model.critic_hidden_size_list=[8]",
                          "policy.model.actor_hidden_size_list=[8]", "policy.model.gsde=true",
                          "policy.collect.sde_sample_freq=7",
                          "policy.eval.evaluator.max_episode_steps=50"],
        }  # fmt: skip
        given = {"resume": str(tmp_path / folder)} if resume else given
        return launch(**given, max_env_step=steps)

    whole, _ = train("whole", 96), train("half", 48)
    rest = train("half", 96, resume=True)
    one, two = (each.policy.learn_mode.state_dict()["model"] for each in (whole, rest))
    assert all(torch.equal(each, two[key]) for key, each in one.items())


@pytest.mark.parametrize(("every", "kind"), [(1, "squashed_gaussian"), (2, "")])
def test_kept_noise_of_gsde_is_no_distribution_of_one_action(every: int, kind: str) -> None:
    policy = policy_of("sac", "policy.model.gsde=true", f"policy.collect.sde_sample_freq={every}")
    assert policy.collect_mode.get_attribute("action_distribution") == kind


def test_gsde_needs_a_gaussian_actor() -> None:
    with pytest.raises(ConfigError, match=r"gsde.*stochastic"):
        policy_of("td3", "policy.model.gsde=true")
    with pytest.raises(ConfigError, match=r"gsde.*batch renorm"):
        policy_of("crossq", "policy.model.gsde=true")
