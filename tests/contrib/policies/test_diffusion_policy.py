"""Diffusion policy: network, schedule, steps back, plans, samples, bad input, exact resuming."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from gymnasium import spaces

from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, SchemaError, UsageError
from dicore.run.launch import launch
from dicore.run.random import seed_everything
from dicore_contrib import Denoiser, DiffusionPolicy, cosine_schedule, reverse_step
from dicore_plugins.datasets import write_npz
from dicore_plugins.policies import create_policy

VECTOR, BOX = spaces.Box(-1, 1, (4,), np.float32), spaces.Box(-2, 3, (2,), np.float32)
SMALL: dict[str, Any] = {"units": 8, "blocks": 1, "kernel": 3, "step_features": 4}


def made(
    observation: Any = VECTOR,
    actions: Any = BOX,
    *,
    model: Any = None,
    length: int = 6,
    **given: Any,
) -> Any:
    seed_everything(0)
    policy = create_policy(
        {
            "type": "diffusion_policy", "model": {**SMALL, **(model or {})}, "action_steps": 3,
            "diffusion_steps": 10, "sample_steps": 4, "collect": {"unroll_len": length}, **given,
        },
        observation_space=observation,
        action_space=actions,
    )  # fmt: skip
    assert isinstance(policy, DiffusionPolicy)
    return policy


def sequences(count: int = 5, length: int = 6) -> Batch:
    """Returns sequences: the first begins an episode, the second ends one after four steps."""
    rng = np.random.default_rng(0)
    valid, left = (
        np.ones((count, length), np.bool_),
        np.arange(length)[::-1] + np.full((count, 1), 9),
    )
    valid[1, 4:], left[1] = False, np.maximum(3 - np.arange(length), 0)
    timestep = np.arange(length) + np.array([0, *[7] * (count - 1)])[:, None]
    columns: dict[str, Any] = {
        "obs": rng.uniform(-1, 1, (count, length, 4)).astype(np.float32),
        "action": rng.uniform(-2, 3, (count, length, 2)).astype(np.float32),
        "timestep": timestep, "steps_to_go": left, "valid": valid,
    }  # fmt: skip
    return Batch(columns, count)


def test_a_network_is_what_it_says() -> None:
    torch.manual_seed(0)
    net = Denoiser(3, 2, obs_norm=False, **SMALL)
    obs, plan, step = torch.randn(5, 2, 3), torch.randn(5, 4, 2), torch.arange(5)
    rate = torch.tensor([1.0, 1e-4])
    angle = step[:, None] * rate
    embedded = net.of_step(torch.cat([angle.sin(), angle.cos()], 1))
    seen = net.of_both(torch.cat([embedded, obs.flatten(1)], 1))
    block = net.blocks[0]
    x = F.conv1d(plan.transpose(1, 2), net.first.weight, net.first.bias, padding=1)
    scale, shift = (
        F.linear(F.mish(seen), block.modulation.weight, block.modulation.bias).view(5, 2, 8)
    ).unbind(1)  # fmt: skip
    y = block.convolutions[0](F.mish(F.group_norm(x, 8, *block.norms[0].parameters())))
    y = y * (1 + scale[:, :, None]) + shift[:, :, None]
    x = x + block.convolutions[1](F.mish(F.group_norm(y, 8, *block.norms[1].parameters())))
    wanted = net.last(F.mish(F.group_norm(x, 8, *net.norm.parameters()))).transpose(1, 2)
    torch.testing.assert_close(net.noise(plan, step, net.condition(obs)), wanted)


def test_the_schedule_is_a_squared_cosine() -> None:
    found, left = cosine_schedule(20), 1.0
    for step in range(20):
        f = [math.cos((t / 20 + 0.008) / 1.008 * math.pi / 2) ** 2 for t in (step, step + 1)]
        left *= 1 - min(1 - f[1] / f[0], 0.999)
        assert float(found[step]) == pytest.approx(left, rel=1e-5)


def test_steps_back_are_those_of_ddpm_and_ddim() -> None:
    torch.manual_seed(0)
    left = cosine_schedule(10).double()
    clean, noise, drawn = torch.rand(6).double() * 2 - 1, torch.randn(6).double(), torch.randn(6)
    for k in (9, 4, 1):
        a, b = left[k], left[k - 1]
        x = a.sqrt() * clean + (1 - a).sqrt() * noise
        beta = 1 - a / b
        mean = b.sqrt() * beta / (1 - a) * clean + (1 - beta).sqrt() * (1 - b) / (1 - a) * x
        std = (beta * (1 - b) / (1 - a)).sqrt()  # Ho et al. 2020, equation 7
        found = reverse_step(x, noise, a, b, drawn, 1.0)
        torch.testing.assert_close(found, mean + std * drawn)
        found = reverse_step(x, noise, a, b, drawn, 0.0)
        torch.testing.assert_close(found, b.sqrt() * clean + (1 - b).sqrt() * noise)
    one = torch.ones((), dtype=torch.float64)
    x = left[0].sqrt() * clean + (1 - left[0]).sqrt() * noise
    torch.testing.assert_close(reverse_step(x, noise, left[0], one, drawn, 1.0), clean)
    far = reverse_step(x * 0 + 50, noise, left[0], one, drawn, 0.0)
    torch.testing.assert_close(far, torch.ones(6).double())


def test_plans_begin_after_what_was_seen_and_repeat_the_ends_of_episodes() -> None:
    policy, batch = made(), sequences()
    columns = batch.to_torch()
    unit = (columns["action"] - 0.5) / 2.5
    begins: list[set[int]] = [set() for _ in range(5)]
    for _ in range(60):
        obs, plan, weight = policy._plans_of(Batch(columns.columns, 5))
        assert plan.shape == (5, 5, 2)
        assert weight.tolist() == pytest.approx([each / 1.6 for each in (2, 3, 1, 1, 1)])
        for row in range(5):
            last = 3 if row == 1 else 5
            (now,) = [t for t in range(6) if torch.equal(obs[row, 1], columns["obs"][row, t])]
            begins[row].add(now)
            assert torch.equal(obs[row, 0], columns["obs"][row, max(now - 1, 0)])
            wanted = torch.stack([unit[row, min(now + i, last)] for i in range(5)])
            torch.testing.assert_close(plan[row], wanted)
    assert begins == [{0, 1}, {1, 2, 3}, {1}, {1}, {1}]


@pytest.mark.parametrize("dims", [(), (2, 1)])
def test_actions_that_are_no_vectors_are_learned_from_as_flat_ones(dims: tuple[int, ...]) -> None:
    found, size = [], int(np.prod(dims))
    for shape in (dims, (size,)):
        policy, batch = made(actions=spaces.Box(-2, 3, shape, np.float32)), sequences()
        batch.columns["action"] = batch["action"][..., :size].reshape(5, 6, *shape)
        found.append(policy.learn_mode.forward(batch)["total_loss"])
    assert torch.equal(*found)


def test_the_loss_is_the_error_of_the_noise() -> None:
    policy, batch = made(model={"obs_norm": False}), sequences()
    net, columns = policy.get_attribute("online"), batch.to_torch()
    torch.manual_seed(3)
    with torch.no_grad():
        obs, plan, weight = policy._plans_of(Batch(columns.columns, 5))
        step, noise = torch.randint(10, (5,)), torch.randn(5, 5, 2)
        wanted = 0.0
        for row in range(5):
            left = float(cosine_schedule(10)[step[row]])
            noisy = math.sqrt(left) * plan[row] + math.sqrt(1 - left) * noise[row]
            seen = net.condition(obs[row : row + 1])
            error = net.noise(noisy[None], step[row : row + 1], seen)[0] - noise[row]
            wanted += float(weight[row] * error.square().mean()) / 5
    torch.manual_seed(3)
    result = policy.learn_mode.forward(batch)
    assert float(result["total_loss"]) == pytest.approx(wanted, rel=1e-4)


def test_the_network_that_acts_has_averaged_parameters() -> None:
    policy, batch = made(learn={"ema_decay": 0.6}), sequences()
    net, online = policy.get_attribute("model"), policy.get_attribute("online")
    for number in range(4):
        before = net.first.weight.detach().clone()
        policy.learn_mode.forward(batch)
        decay = min(0.6, 1 - (1 + number) ** -0.75)
        wanted = decay * before + (1 - decay) * online.first.weight
        torch.testing.assert_close(net.first.weight, wanted)
    assert net.encode.norm.count > 0


def test_plans_are_drawn_by_steps_back_and_followed() -> None:
    policy = made()
    net, memory = (
        policy.get_attribute("model"),
        [np.zeros((1, 4), np.float32) + t for t in range(5)],
    )
    acted = [policy.eval_mode.forward(EnvBatch(np.array([3]), obs)).value["action"][0]
             for obs in memory]  # fmt: skip

    def plan(first: int, second: int) -> Any:
        drawn = np.random.default_rng(0).standard_normal((5, 5, 2), np.float32)
        seen = net.condition(torch.tensor(np.stack([memory[first], memory[second]], 1)))
        x, left = torch.from_numpy(drawn[0:1]), cosine_schedule(10)
        places = [9, 6, 3, 0]
        with torch.no_grad():
            for k, before in zip(places, [*places[1:], None], strict=True):
                b = torch.ones(()) if before is None else left[before]
                noise = net.noise(x, torch.tensor([k]), seen)
                clean = ((x - (1 - left[k]).sqrt() * noise) / left[k].sqrt()).clamp(-1, 1)
                noise = (x - left[k].sqrt() * clean) / (1 - left[k]).sqrt()
                x = b.sqrt() * clean + (1 - b).sqrt() * noise
        return x[0].numpy() * 2.5 + 0.5

    wanted = [*plan(0, 0)[:3], *plan(2, 3)[:2]]
    np.testing.assert_allclose(np.stack(acted), np.stack(wanted), rtol=1e-4, atol=1e-4)
    policy.eval_mode.reset([3])
    again = policy.eval_mode.forward(EnvBatch(np.array([3]), memory[0])).value["action"][0]
    np.testing.assert_allclose(again, acted[0], rtol=1e-4, atol=1e-5)


def test_collecting_draws_other_plans_each_time() -> None:
    policy, obs = made(eta=1.0), EnvBatch(np.arange(3), np.zeros((3, 4), np.float32))
    first = policy.collect_mode.forward(obs).value["action"]
    assert len({tuple(each) for each in first.tolist()}) == 3
    policy.collect_mode.reset()
    assert not np.allclose(policy.collect_mode.forward(obs).value["action"], first)


def test_it_imitates_two_ways_and_not_their_mean() -> None:
    """At each observation, half of the demonstrations go left, half right."""
    seed_everything(0)
    policy = create_policy(
        {"type": "diffusion_policy", "model": {"units": 16, "blocks": 1, "kernel": 1,
                                               "obs_steps": 1},
         "action_steps": 1, "diffusion_steps": 20, "sample_steps": 10,
         "learn": {"learning_rate": 1e-2, "ema_decay": 0.95}, "collect": {"unroll_len": 2}},
        observation_space=spaces.Box(-1, 1, (1,), np.float32),
        action_space=spaces.Box(-1, 1, (1,), np.float32),
    )  # fmt: skip
    rng = np.random.default_rng(0)
    for _ in range(150):
        obs = rng.uniform(-1, 1, (128, 2, 1)).astype(np.float32)
        side = np.where(rng.random((128, 1, 1)) < 0.5, -0.6, 0.6)
        action = np.broadcast_to(side, (128, 2, 1)).astype(np.float32)
        columns: dict[str, Any] = {
            "obs": obs, "action": action, "valid": np.ones((128, 2), np.bool_),
            "timestep": np.ones((128, 2), np.int64), "steps_to_go": np.ones((128, 2), np.int64),
        }  # fmt: skip
        policy.learn_mode.forward(Batch(columns, 128))
    seen = EnvBatch(np.arange(200), rng.uniform(-1, 1, (200, 1)).astype(np.float32))
    acted = policy.collect_mode.forward(seen).value["action"][:, 0]
    near = np.abs(np.abs(acted) - 0.6) < 0.2
    assert near.mean() > 0.75
    assert 0.3 < (acted > 0).mean() < 0.7


def test_own_episodes_become_sequences_that_begin_at_each_step() -> None:
    policy, shape = made(), (9, 1)
    end = np.zeros(shape, np.bool_)
    end[[6, 8], 0] = True
    obs = np.arange(9, dtype=np.float32).reshape(9, 1, 1).repeat(4, 2)
    block = Batch(
        {"obs": obs, "action": np.zeros((*shape, 2), np.float32), "done": end, "end": end,
         "reward": np.zeros(shape, np.float32)}, 9,
    )  # fmt: skip
    samples = policy.collect_mode.get_train_sample(block)
    assert samples["obs"][:, :, 0].tolist() == [
        [0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 6], [7, 8, 8, 8, 8, 8],
    ]  # fmt: skip
    assert samples["timestep"][:, 0].tolist() == [0, 1, 0]
    assert samples["steps_to_go"][:, 0].tolist() == [6, 5, 1]
    assert samples["steps_to_go"][:, -1].tolist() == [1, 0, 0]
    assert samples["valid"].sum(1).tolist() == [6, 6, 2]


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"action_steps": 6}, "action_steps"),
        ({"sample_steps": 11}, "diffusion_steps"),
        ({"discount_factor": 0.9}, "without rewards"),
        ({"nstep": 3}, "nstep"),
        ({"priority_IS_weight": True}, "uniformly"),
        ({"learn": {"ignore_done": True}}, "ignore_done"),
        ({"learn": {"ema_decay": 0.0, "ema_power": 0.5}}, "ema_power"),
        ({"model": {"units": 12}}, "multiple of 8"),
        ({"model": {"kernel": 4}}, "odd"),
        ({"model": {"step_features": 5}}, "even"),
    ],
)
def test_what_it_does_not_do_is_refused(config: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        made(**config)


def test_what_it_cannot_learn_from_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="bounded real numbers"):
        create_policy(
            {"type": "diffusion_policy"}, observation_space=VECTOR, action_space=spaces.Discrete(2)
        )
    with pytest.raises(UsageError, match="Denoiser"):
        DiffusionPolicy(made().get_attribute("cfg"), torch.nn.Linear(4, 2))
    batch = sequences()
    del batch.columns["timestep"]
    with pytest.raises(SchemaError, match="derived"):
        made().learn_mode.forward(batch)
    for option, problem in {
        "pipeline.dataset.derived=[]": r"dataset\.derived",
        "policy.collect.unroll_len=12": r"dataset\.unroll_len",
    }.items():
        with pytest.raises(ConfigError, match=problem):
            launch(
                "pendulum_diffusion_policy", exp_name=str(tmp_path / "run"),
                overrides=["pipeline.dataset.path=x.npz", option],
            )  # fmt: skip
        assert not (tmp_path / "run").exists()


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    rng, count, path = np.random.default_rng(0), 60, tmp_path / "demo.npz"
    columns = {
        "obs": rng.uniform(-1, 1, (count, 3)).astype(np.float32),
        "next_obs": rng.uniform(-1, 1, (count, 3)).astype(np.float32),
        "action": rng.uniform(-2, 2, (count, 1)).astype(np.float32),
        "reward": np.zeros(count, np.float32),
        "terminated": np.zeros(count, np.bool_),
        "truncated": np.arange(count) % 20 == 19,
    }
    write_npz(path, columns)

    def train(name: str, limit: int, *, resume: bool = False) -> Any:
        given: dict[str, Any] = {
            "exp_name": str(tmp_path / name), "env": "pendulum", "policy": "diffusion_policy",
            "seed": 0, "overrides": [
                "pipeline.logger=[]", "env.stop_value=inf", "env.n_evaluator_episode=1",
                "env.evaluator_env_num=1", f"pipeline.dataset.path={path}",
                "policy.learn.batch_size=8", "policy.model.units=8", "policy.sample_steps=2",
                f"pipeline.max_train_iter={limit}",
            ],
        }  # fmt: skip
        if not resume:
            return launch(**given)
        return launch(resume=str(tmp_path / name), overrides=[f"pipeline.max_train_iter={limit}"])

    whole, _ = train("whole", 24), train("half", 12)
    rest = train("half", 24, resume=True)
    assert rest.run.result.train_iter == whole.run.result.train_iter == 24
    one, two = (each.policy.get_attribute("model").state_dict() for each in (whole, rest))
    assert all(torch.equal(one[key], two[key]) for key in one)
