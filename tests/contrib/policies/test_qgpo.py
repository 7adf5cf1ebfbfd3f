"""QGPO: schedule, losses by loops, steps back, guidance in closed form, phases, bad input."""

from __future__ import annotations

import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, UsageError
from dicore.run.launch import launch
from dicore.run.random import seed_everything
from dicore_contrib import (
    QGPONet,
    QGPOPolicy,
    contrastive_energy_error,
    linear_schedule,
)
from dicore_plugins.datasets import write_npz
from dicore_plugins.policies import create_policy

VECTOR, BOX = spaces.Box(-1, 1, (4,), np.float32), spaces.Box(-2, 3, (2,), np.float32)
SMALL: dict[str, Any] = {
    "actor_hidden_size_list": [8], "critic_hidden_size_list": [8], "energy_hidden_size_list": [8],
    "time_features": 4,
}  # fmt: skip
ROWS = 6


def made(observation: Any = VECTOR, actions: Any = BOX, *, model: Any = None, **given: Any) -> Any:
    seed_everything(0)
    learn = {"n_action": 3, "support_steps": 4, "behaviour_updates": 0, **given.pop("learn", {})}
    policy = create_policy(
        {"type": "qgpo", "model": {**SMALL, **(model or {})}, "learn": learn, **given},
        observation_space=observation,
        action_space=actions,
    )
    assert isinstance(policy, QGPOPolicy)
    return policy


def rows(count: int = ROWS, seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "obs": rng.uniform(-1, 1, (count, 4)).astype(np.float32),
        "next_obs": rng.uniform(-1, 1, (count, 4)).astype(np.float32),
        "action": rng.uniform(-2, 3, (count, 2)).astype(np.float32),
        "reward": rng.normal(size=count).astype(np.float32),
        "done": (np.arange(count) % 3 == 0).astype(np.float32),
    }
    return Batch(columns, count)


def shares(time: float) -> tuple[float, float]:
    """Returns alpha and sigma."""
    log = -(20 - 0.1) * time**2 / 4 - 0.1 * time / 2
    return math.exp(log), math.sqrt(1 - math.exp(2 * log))


def drawn_by_loops(net: Any, obs: Any, noise: Any, steps: int, scale: float) -> Any:
    """Draws an action for one observation [1, ...]; DDIM by the logarithms of signal to noise."""
    times = [float(each) ** 2 for each in np.linspace(1, math.sqrt(1e-3), steps)]
    x, features = noise, net.encode.forward(obs)
    for number, time in enumerate(times):
        now, (alpha, sigma) = torch.tensor([time]), shares(time)
        slope = torch.zeros_like(x)
        if scale:
            given = x.detach().requires_grad_()
            net.energy_of(features, given, now).sum().backward(inputs=[given])
            slope = given.grad
        with torch.no_grad():
            found = net.noise(features, x, now) - scale * sigma * slope
            clean = ((x - sigma * found) / alpha).clamp(-1, 1)
            if number + 1 == steps:
                return clean
            after, left = shares(times[number + 1])
            h = math.log(after / left) - math.log(alpha / sigma)
            x = left / sigma * x - after * math.expm1(-h) * clean
    raise AssertionError


def support_by_loops(net: Any, obs: Any, rng: Any) -> Any:
    """Draws three actions for each observation: [B, 3, A]."""
    noise = torch.from_numpy(rng.standard_normal((3 * len(obs), 2), np.float32))
    found = [
        drawn_by_loops(net, obs[row // 3][None], noise[row][None], 4, 0.0)[0]
        for row in range(3 * len(obs))
    ]
    return torch.stack(found).view(-1, 3, 2)


def softmax(values: list[float]) -> list[float]:
    top = max(values)
    each = [math.exp(value - top) for value in values]
    return [value / sum(each) for value in each]


def test_the_schedule_and_the_energy_error_are_those_of_the_papers() -> None:
    for time in (0.001, 0.3, 1.0):
        alpha, _ = shares(time)
        assert float(linear_schedule(torch.tensor(time))) == pytest.approx(alpha**2, rel=1e-5)
    rng = np.random.default_rng(0)
    energy, value = rng.normal(size=(5, 4)), rng.normal(size=(5, 4))
    wanted = 0.0
    for f, q in zip(energy.tolist(), value.tolist(), strict=True):
        pairs = zip(softmax([3 * each for each in q]), softmax(f), strict=True)
        wanted -= sum(share * math.log(found) for share, found in pairs) / 5
    found = contrastive_energy_error(torch.tensor(energy), torch.tensor(value), 3.0)
    assert float(found) == pytest.approx(wanted)
    same = contrastive_energy_error(torch.tensor(3 * value), torch.tensor(value), 3.0)
    assert float(same) < float(found)


def test_a_network_is_what_it_says() -> None:
    torch.manual_seed(0)
    net = QGPONet(obs_shape=3, action_shape=2, **SMALL)
    obs, action, time = torch.randn(5, 3), torch.randn(5, 2), torch.rand(5)
    angle = 100 * time[:, None] * torch.tensor([1.0, 1e-4])
    x = torch.cat([obs, action, angle.sin(), angle.cos()], 1)

    def through(mlp: Any) -> Any:
        first, last = mlp.layers
        return last(torch.nn.functional.gelu(first(x)))

    torch.testing.assert_close(net.noise(obs, action, time), through(net.actor))
    torch.testing.assert_close(net.energy_of(obs, action, time), through(net.energy)[:, 0])
    assert {key: each.shape for key, each in net(obs).items()} == {
        "noise": (5, 2), "energy": (5,), "q_value": (5, 2),
    }  # fmt: skip


def test_the_losses_of_an_update_equal_loops() -> None:
    policy, batch = made(learn={"target_beta": 2.0, "beta": 1.5}), rows()
    net, target = deepcopy(policy.get_attribute("model")), policy.get_attribute("target_model")
    with torch.no_grad():
        for each in target.critic.parameters():  # so that both differ
            each.add_(0.3 * torch.randn_like(each))
    target, rng = deepcopy(target), deepcopy(policy._noise)
    columns, unit = batch.to_torch(), (batch.to_torch()["action"] - 0.5) / 2.5
    after = support_by_loops(net, columns["next_obs"], rng)
    critic = 0.0
    with torch.no_grad():
        for b in range(ROWS):
            q = [float(target.q(columns["next_obs"][b][None], a[None]).min()) for a in after[b]]
            value = sum(p * each for p, each in zip(softmax([2 * e for e in q]), q, strict=True))
            y = float(columns["reward"][b]) + 0.99 * (1 - float(columns["done"][b])) * value
            shown = net.q(columns["obs"][b][None], unit[b][None])[:, 0]
            critic += sum((float(each) - y) ** 2 for each in shown) / ROWS
    result = policy.learn_mode.forward(batch)
    assert float(result["critic_loss"]) == pytest.approx(critic, rel=1e-4)

    target = policy.get_attribute("target_model")  # moved after the step of the critics
    now = support_by_loops(net, columns["obs"], rng)
    times = torch.from_numpy(rng.uniform(1e-3, 1, ROWS).astype(np.float32))
    noise = torch.from_numpy(rng.standard_normal((ROWS * 3, 2), np.float32)).view(ROWS, 3, 2)
    energy = 0.0
    with torch.no_grad():
        for b in range(ROWS):
            obs, (alpha, sigma) = columns["obs"][b][None], shares(float(times[b]))
            q = [1.5 * float(target.q(obs, a[None]).min()) for a in now[b]]
            f = [
                float(net.energy_of(obs, alpha * a[None] + sigma * z[None], times[b : b + 1]))
                for a, z in zip(now[b], noise[b], strict=True)
            ]
            pairs = zip(softmax(q), softmax(f), strict=True)
            energy -= sum(p * math.log(found) for p, found in pairs) / ROWS
    assert float(result["energy_loss"]) == pytest.approx(energy, rel=1e-4)

    times = torch.from_numpy(rng.uniform(1e-3, 1, ROWS).astype(np.float32))
    noise, behaviour = torch.from_numpy(rng.standard_normal((ROWS, 2), np.float32)), 0.0
    with torch.no_grad():
        for b in range(ROWS):
            alpha, sigma = shares(float(times[b]))
            noisy = alpha * unit[b] + sigma * noise[b]
            error = net.noise(columns["obs"][b][None], noisy[None], times[b : b + 1])[0] - noise[b]
            behaviour += float(error.square().mean()) / ROWS
    assert float(result["behaviour_loss"]) == pytest.approx(behaviour, rel=1e-4)


def test_actions_are_drawn_by_guided_steps_back() -> None:
    policy, obs = made(sample_steps=5, guidance_scale=2.0), np.float32([[0.1, -0.5, 0.3, 0.9]] * 3)
    net = policy.get_attribute("model")
    plain_noise = net.noise
    net.noise = lambda f, a, t: a * (1 - linear_schedule(t)).sqrt() + 0.2 * plain_noise(f, a, t)
    acted = policy.eval_mode.forward(EnvBatch(np.array([3, 5, 6]), obs)).value["action"]
    noise = torch.from_numpy(np.random.default_rng(0).standard_normal((1, 2), np.float32))
    wanted = drawn_by_loops(net, torch.from_numpy(obs[:1]), noise, 5, 2.0).numpy() * 2.5 + 0.5
    np.testing.assert_allclose(acted, np.repeat(wanted, 3, 0), rtol=1e-4, atol=1e-4)
    plain = drawn_by_loops(net, torch.from_numpy(obs[:1]), noise, 5, 0.0).numpy() * 2.5 + 0.5
    assert not np.allclose(acted[:1], plain, atol=1e-3)
    explored = policy.collect_mode.forward(EnvBatch(np.arange(3), obs)).value["action"]
    assert len({tuple(each) for each in explored.tolist()}) == 3


def test_guidance_of_a_gaussian_by_a_quadratic_energy_is_that_in_closed_form() -> None:
    """exp(-c (a - g)^2 / 2) moves N(m, s^2) to the mean (m / s^2 + c g) / (1 / s^2 + c)."""
    m, s, g, c = 0.3, 0.15, -0.4, 30.0
    policy = made(actions=spaces.Box(-1, 1, (1,), np.float32))
    net = policy.get_attribute("model")

    def noise(_: Any, action: Any, time: Any) -> Any:
        alpha, sigma = shares(float(time))
        return sigma * (action - alpha * m) / (alpha**2 * s**2 + sigma**2)

    def energy(_: Any, action: Any, time: Any) -> Any:
        """log E[exp(energy of the clean action) | noisy action]."""
        alpha, sigma = shares(float(time))
        total = alpha**2 * s**2 + sigma**2
        mean = m + alpha * s**2 / total * (action[:, 0] - alpha * m)
        variance = s**2 * sigma**2 / total
        return -c * (mean - g).square() / (2 * (1 + c * variance))

    net.noise, net.energy_of = noise, energy
    normal = np.linspace(-2.5, 2.5, 400)
    weight = np.exp(-(normal**2) / 2)
    start = torch.from_numpy(normal.astype(np.float32))[:, None]
    precision = 1 / s**2 + c
    for scale, mean, std in (
        (0.0, m, s),
        (1.0, (m / s**2 + c * g) / precision, precision**-0.5),
    ):
        found = policy._drawn(torch.zeros(400, 4), start, 200, scale)[:, 0].numpy()
        middle = np.average(found, weights=weight)
        assert middle == pytest.approx(mean, abs=5e-3)
        spread = math.sqrt(np.average((found - middle) ** 2, weights=weight))
        assert spread == pytest.approx(std * math.sqrt(np.average(normal**2, weights=weight)), 0.03)
        few = policy._drawn(torch.zeros(400, 4), start, 15, scale)[:, 0].numpy()
        assert np.average(few, weights=weight) == pytest.approx(mean, abs=0.03)


def test_it_takes_the_better_of_two_ways() -> None:
    """Recorded actions are near -0.8 and 0.8; only the latter are paid."""
    seed_everything(0)
    sizes = {name: [32, 32] for name in SMALL if name.endswith("list")}
    policy: Any = create_policy(
        {"type": "qgpo", "model": {**sizes, "time_features": 8}, "guidance_scale": 2.0,
         "learn": {"learning_rate": 1e-2, "behaviour_updates": 300, "n_action": 8,
                   "target_theta": 0.1}},
        observation_space=spaces.Box(-1, 1, (1,), np.float32),
        action_space=spaces.Box(-1, 1, (1,), np.float32),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    for _ in range(450):
        side = np.where(rng.random(64) < 0.5, -0.8, 0.8)
        action = side + 0.05 * rng.normal(size=64)
        seen = rng.uniform(-1, 1, (64, 1)).astype(np.float32)
        columns: dict[str, Any] = {
            "obs": seen, "next_obs": seen, "action": action.astype(np.float32)[:, None],
            "reward": (side > 0).astype(np.float32), "done": np.ones(64, np.float32),
        }  # fmt: skip
        policy.learn_mode.forward(Batch(columns, 64))
    obs = rng.uniform(-1, 1, (200, 1)).astype(np.float32)
    guided = policy.collect_mode.forward(EnvBatch(np.arange(200), obs)).value["action"][:, 0]
    assert (np.abs(guided - 0.8) < 0.25).mean() > 0.85
    noise = torch.from_numpy(rng.standard_normal((200, 1), np.float32))
    plain = policy._drawn(torch.from_numpy(obs), noise, 15, 0.0)[:, 0].numpy()
    assert 0.3 < (plain > 0).mean() < 0.7
    assert (np.abs(np.abs(plain) - 0.8) < 0.3).mean() > 0.6


def test_the_model_of_actions_learns_first_and_alone() -> None:
    policy, batch = made(learn={"behaviour_updates": 2}, model={"obs_norm": True}), rows()
    net = policy.get_attribute("model")
    for number in range(4):
        before = {part: deepcopy(getattr(net, part).state_dict()) for part in
                  ("actor", "critic", "energy")}  # fmt: skip
        result = policy.learn_mode.forward(batch)
        moved = {
            part for part, state in before.items()
            if any(not torch.equal(each, getattr(net, part).state_dict()[key])
                   for key, each in state.items())
        }  # fmt: skip
        assert moved == ({"actor"} if number < 2 else {"actor", "critic", "energy"})
        assert (result["critic_loss"] is None) == (number < 2)
        assert set(result) >= set(policy.learn_mode.monitor_vars())
    assert float(net.obs_norm.count) == 4 * ROWS


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"priority": True}, "priority"),
        ({"collect": {"unroll_len": 3}}, "unroll_len"),
        ({"collect": {"act_by_numpy": False}}, "act_by_numpy"),
        ({"learn": {"compile": True}}, "compile"),
        ({"learn": {"autocast": "bfloat16"}}, "autocast"),
        ({"learn": {"n_action": 1}}, "n_action"),
        ({"learn": {"beta": 0.0}}, "beta"),
        ({"guidance_scale": 0.0, "learn": {"beta": 2.0}}, "beta"),
        ({"sample_steps": 1}, "sample_steps"),
        ({"model": {"time_features": 5}}, "even"),
    ],
)
def test_what_it_does_not_do_is_refused(config: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        made(**config)


def test_what_it_cannot_learn_from_is_refused(tmp_path: Path) -> None:
    free = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    for observation, action, problem in (
        (VECTOR, spaces.Discrete(2), "bounded real numbers"),
        (VECTOR, free, "bounded real numbers"),
        (spaces.Box(0, 255, (64, 64, 3), np.uint8), BOX, "vector"),
    ):
        with pytest.raises(ConfigError, match=problem):
            create_policy({"type": "qgpo"}, observation_space=observation, action_space=action)
    with pytest.raises(UsageError, match="QGPONet"):
        QGPOPolicy(made().get_attribute("cfg"), torch.nn.Linear(4, 2))
    data = "pipeline.dataset.path=none.npz"
    for override, problem in (
        ([], "dataset"), ([data], "dataset"),
        ([data, "pipeline.max_train_iter=2000"], "behaviour_updates: .* less than the 2000"),
    ):  # fmt: skip
        with pytest.raises(Exception, match=problem):
            launch("pendulum_qgpo", exp_name=str(tmp_path / "run"), overrides=override)
        assert not (tmp_path / "run").exists()


def recorded(path: Path, count: int = 60) -> Path:
    """Writes episodes of twenty steps that time limits end."""
    rng = np.random.default_rng(0)
    columns = {
        "obs": rng.uniform(-1, 1, (count, 3)).astype(np.float32),
        "next_obs": rng.uniform(-1, 1, (count, 3)).astype(np.float32),
        "action": rng.uniform(-2, 2, (count, 1)).astype(np.float32),
        "reward": rng.normal(size=count).astype(np.float32),
        "terminated": np.zeros(count, np.bool_),
        "truncated": np.arange(count) % 20 == 19,
    }
    write_npz(path, columns)
    return path


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    path = recorded(tmp_path / "demo.npz")

    def train(name: str, limit: int, *, resume: bool = False) -> Any:
        given: dict[str, Any] = {
            "exp_name": str(tmp_path / name), "env": "pendulum", "policy": "qgpo",
            "seed": 0, "overrides": [
                "pipeline.logger=[]", "env.stop_value=inf", "env.n_evaluator_episode=1",
                "env.evaluator_env_num=1", f"pipeline.dataset.path={path}",
                "policy.learn.batch_size=8", "policy.sample_steps=2", "policy.learn.n_action=2",
                "policy.learn.behaviour_updates=8", f"pipeline.max_train_iter={limit}",
                "policy.model.actor_hidden_size_list=[8]", "policy.model.obs_norm=true",
            ],
        }  # fmt: skip
        if not resume:
            return launch(**given)
        return launch(resume=str(tmp_path / name), overrides=[f"pipeline.max_train_iter={limit}"])

    whole, _ = train("whole", 20), train("half", 12)
    rest = train("half", 20, resume=True)
    assert rest.run.result.train_iter == whole.run.result.train_iter == 20
    for part in ("model", "target_model"):
        one, two = (each.policy.get_attribute(part).state_dict() for each in (whole, rest))
        assert all(torch.equal(one[key], two[key]) for key in one)
