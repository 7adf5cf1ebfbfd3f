"""FlashSAC: losses by loops, order of updates, noise that is kept, bad input, exact resuming."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor

from dicore.config import compile_config
from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, UsageError
from dicore.run.launch import launch
from dicore.run.random import seed_everything
from dicore_contrib import FlashSACPolicy
from dicore_plugins.models import CategoricalQAC
from dicore_plugins.policies import create_policy
from tests.contrib.models.test_flash import disturbed, reference
from tests.contrib.policies.test_fast_td3 import projected
from tests.plugins.policies.resuming import same_after_resume

VECTOR, BOX = spaces.Box(-1, 1, (4,), np.float32), spaces.Box(-2, 3, (2,), np.float32)
SMALL: dict[str, Any] = {
    "actor_hidden_size_list": [4], "critic_hidden_size_list": [4, 4], "n_atom": 5, "v_min": -2.0,
    "v_max": 2.0,
}  # fmt: skip
COUNT = 12


def made(*, collect: Any = None, **learn: Any) -> FlashSACPolicy:
    seed_everything(0)
    policy = create_policy(
        {
            "type": "flash_sac", "model": SMALL, "discount_factor": 0.9, "collect": collect or {},
            "learn": {"batch_size": COUNT, "alpha": 0.3, **learn},
        },
        observation_space=VECTOR, action_space=BOX,
    )  # fmt: skip
    assert isinstance(policy, FlashSACPolicy)
    for name in ("model", "target_model"):
        model = policy.get_attribute(name)
        disturbed(model.actor)
        disturbed(model.critic)
    return policy


def samples(seed: int = 0) -> Batch:
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        "obs": rng.uniform(-1, 1, (COUNT, 4)).astype(np.float32),
        "next_obs": rng.uniform(-1, 1, (COUNT, 4)).astype(np.float32),
        "action": rng.uniform(-2, 3, (COUNT, 2)).astype(np.float32),
        "reward": rng.standard_normal(COUNT).astype(np.float32),
        "done": (np.arange(COUNT) < 2).astype(np.float32),
    }
    return Batch(columns, COUNT)


def acted(policy: FlashSACPolicy, obs: Tensor, noise: Tensor, *, training: bool) -> Any:
    """Computes actions and their log-probabilities, as distributions of torch do."""
    mean, raw = reference(policy._model.actor, 0, obs, training=training).chunk(2, 1)
    std = (-10 + 6 * (1 + raw.tanh())).exp()
    mean, std = mean[: len(noise)], std[: len(noise)]
    before = mean + std * noise
    action = before.tanh()
    stretch = torch.distributions.TanhTransform().log_abs_det_jacobian(before, action)
    return action, (torch.distributions.Normal(mean, std).log_prob(before) - stretch).sum(1)


def test_the_critic_learns_what_loops_compute() -> None:
    policy, batch = made(), samples()
    model, target = policy.get_attribute("model"), policy.get_attribute("target_model")
    columns, support, state = batch.to_torch(), model.support, policy._noise.bit_generator.state
    with torch.no_grad():
        noise = policy._normal(torch.zeros(COUNT, 2))
        next_action, log_prob = acted(policy, columns["next_obs"], noise, training=False)
        now = torch.cat([columns["obs"], (columns["action"] - 0.5) / 2.5], 1)
        both = torch.cat([now, torch.cat([columns["next_obs"], next_action], 1)])
        after = [reference(target.critic, e, both, training=True)[COUNT:] for e in range(2)]
        log = [
            reference(model.critic, e, both, training=True)[:COUNT].log_softmax(1) for e in range(2)
        ]
        share = [each.softmax(1) for each in after]
        chosen, wanted = [], 0.0
        for row in range(COUNT):
            q = [float(share[e][row] @ support) for e in range(2)]
            chosen.append(int(np.argmin(q)))
            going = 0.9 * (1 - float(columns["done"][row]))
            reward = float(columns["reward"][row]) - going * 0.3 * float(log_prob[row])
            found = projected(share[chosen[-1]][row], reward, float(columns["done"][row]),
                              support.tolist())  # fmt: skip
            for e in range(2):
                for p, each in zip(found, log[e][row], strict=True):
                    wanted -= p * float(each) / COUNT / 2
    assert {*chosen} == {0, 1}
    policy._noise.bit_generator.state = state
    loss, _, q = policy._critic_loss(batch.to_torch(), None)
    assert loss.item() == pytest.approx(wanted, rel=1e-4)
    assert q.shape == (2, COUNT)
    weight = torch.rand(COUNT)
    policy._noise.bit_generator.state = state
    weighted = policy._critic_loss(batch.to_torch(), weight)[0]
    assert weighted.item() < loss.item()


def test_the_actor_maximizes_the_lower_value_and_entropy() -> None:
    policy, columns = made(), samples().to_torch()
    state = policy._noise.bit_generator.state
    noise = policy._normal(torch.zeros(COUNT, 2))
    both = torch.cat([columns["obs"], columns["next_obs"]])
    action, log_prob = acted(policy, both, noise, training=True)
    x = torch.cat([columns["obs"], action], 1)
    critic, support = policy._model.critic, policy._model.support
    q = torch.stack(
        [reference(critic, e, x, training=False).softmax(1) @ support for e in range(2)]
    )
    wanted = (0.3 * log_prob - q.min(0).values).mean()
    policy._noise.bit_generator.state = state
    loss, entropy = policy._actor_loss(columns)
    torch.testing.assert_close(loss, wanted, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(entropy, -log_prob.mean(), rtol=1e-4, atol=1e-4)
    parameters = [*policy._model.actor.parameters()]
    found = torch.autograd.grad(loss, parameters)
    for one, two in zip(found, torch.autograd.grad(wanted, parameters), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)


def test_the_temperature_keeps_the_entropy_of_a_narrow_gaussian() -> None:
    policy = made()
    wanted = 2 * float(torch.distributions.Normal(0, 0.15).entropy())
    assert policy.get_attribute("target_entropy") == pytest.approx(wanted)
    assert made(target_entropy=-3.0).get_attribute("target_entropy") == -3.0
    entropy = policy.learn_mode.forward(samples())["entropy"]
    gradient = policy._flats["alpha"].grad
    assert gradient.item() == pytest.approx(0.3 * (float(entropy) - wanted), rel=1e-5)
    moved = float(policy._alpha)
    assert (moved < 0.3) == (float(entropy) > wanted)


def test_the_target_of_the_entropy_moves_to_its_end() -> None:
    policy = made(target_entropy=-2.0, target_entropy_end=-4.0, target_entropy_decay=4)
    seen = []
    for _ in range(8):
        policy.learn_mode.forward(samples())
        seen.append(policy.get_attribute("target_entropy"))
    assert seen == [-2.0, -2.0, -2.5, -2.5, -3.5, -3.5, -4.0, -4.0]


def test_norms_hold_after_each_update_and_the_target_follows() -> None:
    policy = made(target_theta=0.25, actor_update_freq=2, learning_rate=0.01)
    model, target = policy.get_attribute("model"), policy.get_attribute("target_model")
    moved = []
    for step in range(4):
        actor = [each.clone() for each in model.actor.parameters()]
        mean, head = target.critic.weights[1].clone(), target.critic.bias.clone()
        result = policy.learn_mode.forward(samples(step))
        for part in (model.critic, target.critic, model.actor):
            for weight in part.weights:
                torch.testing.assert_close(weight.norm(dim=1), torch.ones(weight.shape[::2]))
            for norm in part.norms:
                total = (norm.scale.square() + norm.shift.square()).mean(-1)
                torch.testing.assert_close(total, torch.ones_like(total))
        raw = mean.lerp(model.critic.weights[1], 0.25)
        torch.testing.assert_close(target.critic.weights[1], raw / raw.norm(dim=1, keepdim=True))
        torch.testing.assert_close(target.critic.bias, head.lerp(model.critic.bias, 0.25))
        after = [*model.actor.parameters()]
        moved.append(any(not a.equal(b) for a, b in zip(actor, after, strict=True)))
        assert (result["actor_loss"] is not None) == moved[-1]
    assert moved == [True, False, True, False]


def test_the_actor_learns_before_the_critics_do() -> None:
    policy, columns = made(), samples().to_torch()
    state = policy._noise.bit_generator.state
    wanted = policy._actor_loss(columns)[0].item()
    policy = made()
    policy._noise.bit_generator.state = state
    assert float(policy.learn_mode.forward(samples())["actor_loss"]) == pytest.approx(wanted)


def test_the_learning_rate_falls_along_a_cosine() -> None:
    policy = made(learning_rate=1e-3, learning_rate_end=0.5, learning_rate_decay=4)
    rates = [policy.learn_mode.forward(samples())["cur_lr"] for _ in range(6)]
    wanted = [0.75 + 0.25 * math.cos(math.pi * min(k / 4, 1)) for k in range(6)]
    assert rates == pytest.approx([1e-3 * each for each in wanted])
    assert {each.learning_rate for each in policy._optimizers.values()} == {rates[-1]}


def test_collecting_adds_noise_and_evaluating_does_not() -> None:
    policy, seen = made(), EnvBatch(np.arange(3), np.zeros((3, 4), np.float32))
    for _ in range(3):
        output = policy.collect_mode.forward(seen).value
        noise = policy.collect_mode.get_attribute("collect_state")["drawn"]
        wanted = np.tanh(output["mean"] + np.exp(output["log_std"]) * noise) * 2.5 + 0.5
        assert output["action"] == pytest.approx(wanted, abs=1e-5)
    found = [policy.eval_mode.forward(seen).value["action"] for _ in range(2)]
    assert found[0] == pytest.approx(np.tanh(output["mean"]) * 2.5 + 0.5, abs=1e-5)
    assert (found[0] == found[1]).all()
    kept = policy.collect_mode.get_attribute("collect_state")
    state = policy._rng.bit_generator.state
    first = [policy.collect_mode.forward(seen).value["action"] for _ in range(20)]
    policy.collect_mode.set_attribute("collect_state", kept)
    policy._rng.bit_generator.state = state
    again = [policy.collect_mode.forward(seen).value["action"] for _ in range(20)]
    assert (np.stack(first) == np.stack(again)).all()
    assert policy.get_attribute("action_distribution") == ""
    assert made(collect={"max_noise_steps": 1})._get_action_distribution() == "squashed_gaussian"


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"collect": {"max_noise_steps": 0}}, "max_noise_steps"),
        ({"collect": {"act_by_numpy": False}}, "act_by_numpy"),
        ({"collect": {"sde_sample_freq": 4}}, "sde_sample_freq"),
        ({"collect": {"unroll_len": 2}}, "unroll_len"),
        ({"learn": {"batch_size": 1}}, "batch_size"),
        ({"learn": {"auto_alpha": False, "target_entropy": -1.0}}, "target_entropy: has no effect"),
        ({"model": {**SMALL, "gsde": True}}, "gsde"),
        ({"model": {**SMALL, "v_min": 5.0}}, "v_max"),
        ({"learn": {"batch_size": 64}, "other": {"replay_buffer": {"replay_buffer_size": 32}}},
         "must be <= 32"),
    ],
)  # fmt: skip
def test_what_it_does_not_do_is_refused(config: Any, problem: str) -> None:
    given = {"type": "flash_sac", "model": SMALL, **config}
    with pytest.raises(ConfigError, match=problem):
        create_policy(given, observation_space=VECTOR, action_space=BOX)


def test_discrete_actions_images_and_foreign_networks_are_refused() -> None:
    image = spaces.Box(0, 255, (64, 64, 3), np.uint8)
    for seen, act, problem in (
        (VECTOR, spaces.Discrete(2), "bounded real numbers"),
        (image, BOX, "takes vectors"),
    ):
        with pytest.raises(ConfigError, match=problem):
            create_policy({"type": "flash_sac"}, observation_space=seen, action_space=act)
    other = CategoricalQAC(5, obs_shape=4, action_shape=2)
    with pytest.raises(UsageError, match="FlashSACNet"):
        FlashSACPolicy(made().get_attribute("cfg"), other)


@pytest.mark.parametrize("mode", ["serial_offline", "parallel"])
def test_pipelines_without_statistics_are_refused_before_a_folder(
    mode: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"policy\.reward_model|offline"):
        launch(env="pendulum", policy="flash_sac", mode=mode, exp_name=str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    options = [
        "policy.model.actor_hidden_size_list=[4]", "policy.model.critic_hidden_size_list=[4]",
        "policy.learn.batch_size=8", "policy.collect.n_sample=4", "env.collector_env_num=4",
        "policy.collect.random_collect_size=20", "policy.nstep=3",
    ]  # fmt: skip
    one, two = same_after_resume("flash_sac", "pendulum", options, tmp_path, 96)
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_the_preset_fits_its_task() -> None:
    pytest.importorskip("dicore_contrib_envs")
    compiled = compile_config(preset="pendulum_flash_sac")
    assert (compiled.policy.type, compiled.env.type) == ("flash_sac", "pendulum")
