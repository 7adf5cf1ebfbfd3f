"""BRO: network, losses by loops, exploring, resets, bad input, exact resuming."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.config import compile_config
from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, UsageError
from dicore.run.random import seed_everything
from dicore_contrib import BRONet, BroNetLayers, BROPolicy
from dicore_plugins.models import QuantileQAC
from dicore_plugins.policies import create_policy
from tests.plugins.policies.resuming import same_after_resume

VECTOR, BOX = spaces.Box(-1, 1, (4,), np.float32), spaces.Box(-2, 3, (2,), np.float32)
SMALL: dict[str, Any] = {
    "actor_hidden_size_list": [8], "critic_hidden_size_list": [8, 8], "num_quantiles": 3,
}  # fmt: skip


def made(**learn: Any) -> BROPolicy:
    seed_everything(0)
    policy = create_policy(
        {"type": "bro", "model": SMALL, "discount_factor": 0.9, "learn": learn},
        observation_space=VECTOR,
        action_space=BOX,
    )
    assert isinstance(policy, BROPolicy)
    return policy


def samples(count: int = 6) -> Batch:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {
        "obs": rng.uniform(-1, 1, (count, 4)).astype(np.float32),
        "next_obs": rng.uniform(-1, 1, (count, 4)).astype(np.float32),
        "action": rng.uniform(-2, 3, (count, 2)).astype(np.float32),
        "reward": rng.standard_normal(count).astype(np.float32),
        "done": (np.arange(count) == 0).astype(np.float32),
    }
    return Batch(columns, count)


def test_layers_are_what_they_say() -> None:
    torch.manual_seed(0)
    net = BroNetLayers(2, (3, 8, 8, 2))
    for weight in net.weights[1:-1]:
        for each in weight:
            torch.testing.assert_close(each @ each.T, 2 * torch.eye(8), rtol=1e-4, atol=1e-4)
    for parameter in net.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    x = torch.randn(5, 3)
    for number in range(2):

        def normed(index: int, rows: Any, number: int = number) -> Any:
            rows = rows @ net.weights[index][number] + net.biases[index][number]
            mean, variance = rows.mean(-1, keepdim=True), rows.var(-1, keepdim=True, unbiased=False)
            rows = (rows - mean) / (variance + 1e-5).sqrt()
            return rows * net.scales[index][number] + net.shifts[index][number]

        h = normed(0, x).relu()
        h = h + normed(2, normed(1, h).relu())
        h = h + normed(4, normed(3, h).relu())
        wanted = h @ net.weights[5][number] + net.biases[5][number]
        torch.testing.assert_close(net(x)[number], wanted, rtol=1e-4, atol=1e-5)


def test_the_critic_learns_quantiles_of_the_mean_target_by_loops() -> None:
    policy, batch = made(alpha=0.3), samples()
    model, target = policy.get_attribute("model"), policy.get_attribute("target_model")
    with torch.no_grad():
        for parameter in target.critic.parameters():
            parameter.add_(0.05)
    columns, wanted = batch.to_torch(), 0.0
    state = policy._noise.bit_generator.state
    with torch.no_grad():
        action, log_prob = policy._sample(columns["next_obs"])
        after = target.outputs(columns["next_obs"], action)
        taken = (columns["action"] - 0.5) / 2.5
        found = model.outputs(columns["obs"], taken)
        for network in range(2):
            for row in range(6):
                for i in range(3):
                    for j in range(3):
                        mean = (after[0, row, j] + after[1, row, j]) / 2 - 0.3 * log_prob[row]
                        going = 1 - columns["done"][row]
                        y = float(columns["reward"][row] + 0.9 * going * mean)
                        error = y - float(found[network, row, i])
                        huber = error**2 / 2 if abs(error) <= 1 else abs(error) - 0.5
                        wanted += abs((i + 0.5) / 3 - (error < 0)) * huber / 3 / 6
    policy._noise.bit_generator.state = state
    result = policy.learn_mode.forward(batch)
    assert float(result["critic_loss"]) == pytest.approx(wanted, rel=1e-4)


def test_the_explorer_maximizes_an_upper_bound_near_the_actor() -> None:
    policy, obs = made(optimism=2.0, regularizer=0.5), samples().to_torch()["obs"]
    model = policy.get_attribute("model")
    with torch.no_grad():
        for parameter in model.explorer.parameters():
            parameter.add_(0.3)
    state = policy._noise.bit_generator.state
    with torch.no_grad():
        output = model.policy(obs)
        mean, std = output["mean"], output["log_std"].exp()
        moved = mean + model.shift(obs, mean)
        normal = policy._normal(mean)
        action = torch.tanh(moved + 0.75 * std * normal)
        z = model.outputs(obs, action)
        upper = [
            sum(float((z[0, r, i] + z[1, r, i]) / 2 + 2.0 * abs(z[0, r, i] - z[1, r, i]) / 2)
                for i in range(3)) / 3
            for r in range(6)
        ]  # fmt: skip
        one, two = torch.distributions.Normal(moved, std), torch.distributions.Normal(mean, std)
        kl = torch.distributions.kl_divergence(one, two).sum(-1).mean()
    policy._noise.bit_generator.state = state
    before = policy._weights.tolist()
    result = policy._update_explorer(obs)
    assert float(result["divergence"]) == pytest.approx(float(kl), rel=1e-4)
    loss = 0.5 * float(kl) - sum(upper) / 6
    assert float(result["explorer_loss"]) == pytest.approx(loss, rel=1e-4)
    assert before == pytest.approx([2.0, 0.5], rel=1e-4)
    optimism, regularizer = policy._weights.tolist()
    assert float(kl) / 2 > 0.05  # so exploring is too far away
    assert optimism < before[0]
    assert regularizer > before[1]


def test_exploring_leaves_actor_and_critics_alone() -> None:
    policy = made()
    model, obs = policy.get_attribute("model"), samples().to_torch()["obs"]
    before = {key: each.clone() for key, each in model.state_dict().items()}
    policy._update_explorer(obs)
    changed = {key.partition(".")[0] for key, each in model.state_dict().items()
               if not before[key].equal(each)}  # fmt: skip
    assert changed == {"explorer"}


def test_collecting_explores_and_evaluation_does_not() -> None:
    policy = made()
    model = policy.get_attribute("model")
    with torch.no_grad():
        for parameter in model.explorer.parameters():
            parameter.add_(0.1)
    obs = samples(1)["obs"].repeat(4000, 0)
    seen = EnvBatch(np.arange(4000), obs)
    with torch.no_grad():
        output = model.policy(torch.from_numpy(obs[:1]))
        mean, std = output["mean"][0], output["log_std"][0].exp()
        moved = mean + model.shift(torch.from_numpy(obs[:1]), output["mean"])[0]
    unit = (policy.collect_mode.forward(seen).value["action"] - 0.5) / 2.5
    drawn = np.arctanh(np.clip(unit, -0.999999, 0.999999))
    assert np.median(drawn, 0) == pytest.approx(moved.numpy(), abs=0.1)
    inner = np.quantile(drawn, 0.84, 0) - np.median(drawn, 0)
    assert inner == pytest.approx(0.75 * std.numpy(), rel=0.15)
    best = policy.eval_mode.forward(EnvBatch(np.arange(1), obs[:1])).value["action"][0]
    assert (best - 0.5) / 2.5 == pytest.approx(mean.tanh().numpy(), abs=1e-5)


def test_a_reset_begins_anew_and_another_one_differently() -> None:
    policy, batch = made(resets=[2, 4], optimism=3.0), samples()
    model, states = policy.get_attribute("model"), []
    for count in range(1, 5):
        policy.learn_mode.forward(batch)
        if count not in (2, 4):
            continue
        states.append({key: each.clone() for key, each in model.state_dict().items()})
        assert policy._alpha.item() == 1.0
        assert policy._weights.tolist() == pytest.approx([3.0, 0.25], rel=1e-4)
        target = policy.get_attribute("target_model").state_dict()
        names = [key for key in target if key.startswith(("actor", "critic"))]
        assert all(target[key].equal(states[-1][key]) for key in names)
        assert all(math.isclose(float(each.abs().max()), 0.0) for key, each in states[-1].items()
                   if "biases" in key)  # fmt: skip
        for each in policy._optimizers.values():
            assert each.counts[0] == 0
    assert any(not states[0][key].equal(states[1][key]) for key in states[0])


def test_skipped_updates_are_counted_beyond_resets_and_checkpoints() -> None:
    policy, batch = made(resets=[3]), samples()
    worse = Batch({**batch.columns, "reward": np.full(6, np.inf, np.float32)})
    for each in (worse, batch, batch, worse, batch):
        policy.learn_mode.forward(each)
    assert policy._get_optimizer_counts()["critic"] == (5, 2)
    other = made(resets=[3])
    other.learn_mode.load_state_dict(policy.learn_mode.state_dict())
    assert other._get_optimizer_counts() == policy._get_optimizer_counts()


def test_entropy_is_kept_near_minus_half_of_the_action_values() -> None:
    assert made().get_attribute("target_entropy") == -1.0
    assert made(target_entropy=-3.0).get_attribute("target_entropy") == -3.0


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"learn": {"resets": [5, 5]}}, "must rise"),
        ({"learn": {"resets": [0]}}, "resets"),
        ({"learn": {"kl_target": 0.0}}, "kl_target"),
        ({"learn": {"auto_alpha": False, "target_entropy": -1.0}}, "target_entropy: has no effect"),
        ({"model": {**SMALL, "critic_hidden_size_list": [8, 4]}}, "equal size"),
        ({"model": {**SMALL, "gsde": True}}, "gsde"),
        ({"model": {**SMALL, "num_critics": 5}}, "num_critics"),
        ({"collect": {"act_by_numpy": False}}, "act_by_numpy"),
        ({"collect": {"sde_sample_freq": 4}}, "sde_sample_freq"),
    ],
)
def test_what_it_does_not_do_is_refused(config: Any, problem: str) -> None:
    given = {"type": "bro", "model": SMALL, **config}
    with pytest.raises(ConfigError, match=problem):
        create_policy(given, observation_space=VECTOR, action_space=BOX)


def test_discrete_actions_and_foreign_networks_are_refused() -> None:
    with pytest.raises(ConfigError, match="bounded real numbers"):
        create_policy({"type": "bro"}, observation_space=VECTOR, action_space=spaces.Discrete(2))
    with pytest.raises(UsageError, match="BRONet"):
        BROPolicy(made().get_attribute("cfg"), QuantileQAC(3, obs_shape=4, action_shape=2))


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    options = [
        "policy.model.actor_hidden_size_list=[8]", "policy.model.critic_hidden_size_list=[8]",
        "policy.model.num_quantiles=3", "policy.learn.batch_size=8",
        "policy.collect.random_collect_size=20", "policy.learn.update_per_step=1.0",
        "policy.learn.resets=[15,70]",
    ]  # fmt: skip
    one, two = same_after_resume("bro", "pendulum", options, tmp_path, 120)
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_the_preset_fits_its_task_and_networks_are_drawn_alike() -> None:
    pytest.importorskip("dicore_contrib_envs")
    compiled = compile_config(preset="pendulum_bro")
    assert (compiled.policy.type, compiled.env.type) == ("bro", "pendulum")
    torch.manual_seed(0)
    net = BRONet(3, 1, num_quantiles=2)
    torch.manual_seed(1)
    net.draw()
    first = net.actor.weights[0].clone()
    torch.manual_seed(1)
    net.draw()
    assert net.actor.weights[0].equal(first)
