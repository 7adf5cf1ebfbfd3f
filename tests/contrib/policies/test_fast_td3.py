"""FastTD3: losses by loops, noise per environment, bad input, exact resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.config import compile_config
from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError
from dicore.run.random import seed_everything
from dicore_contrib import FastTD3Policy
from dicore_plugins.policies import create_policy
from tests.plugins.policies.resuming import same_after_resume

VECTOR, BOX = spaces.Box(-1, 1, (4,), np.float32), spaces.Box(-2, 3, (2,), np.float32)
SMALL: dict[str, Any] = {
    "actor_hidden_size_list": [8], "critic_hidden_size_list": [8], "n_atom": 5, "v_min": -4.0,
    "v_max": 4.0, "obs_norm": False,
}  # fmt: skip


def made(*, collect: Any = None, **learn: Any) -> FastTD3Policy:
    seed_everything(0)
    policy = create_policy(
        {
            "type": "fast_td3", "model": SMALL, "discount_factor": 0.9, "collect": collect or {},
            "learn": {"batch_size": 8, **learn},
        },
        observation_space=VECTOR,
        action_space=BOX,
    )  # fmt: skip
    assert isinstance(policy, FastTD3Policy)
    with torch.no_grad():
        for parameter in policy.get_attribute("model").parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        for parameter in policy.get_attribute("target_model").parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return policy


def samples(count: int = 24) -> Batch:
    rng = np.random.default_rng(0)
    columns: dict[str, Any] = {
        "obs": rng.uniform(-1, 1, (count, 4)).astype(np.float32),
        "next_obs": rng.uniform(-1, 1, (count, 4)).astype(np.float32),
        "action": rng.uniform(-2, 3, (count, 2)).astype(np.float32),
        "reward": rng.standard_normal(count).astype(np.float32),
        "done": (np.arange(count) == 0).astype(np.float32),
    }
    return Batch(columns, count)


def projected(share: Any, reward: float, done: float, support: list[float]) -> list[float]:
    found = [0.0] * len(support)
    step = support[1] - support[0]
    for value, p in zip(support, share, strict=True):
        moved = min(max(reward + 0.9 * (1 - done) * value, support[0]), support[-1])
        place = (moved - support[0]) / step
        low = min(int(place), len(support) - 2)
        found[low] += float(p) * (1 - (place - low))
        found[low + 1] += float(p) * (place - low)
    return found


@pytest.mark.parametrize("clipped", [True, False])
def test_the_losses_are_those_of_loops(clipped: bool) -> None:
    policy, batch = made(clipped=clipped, target_noise=0.3, target_noise_clip=0.2), samples()
    model, target = policy.get_attribute("model"), policy.get_attribute("target_model")
    columns, support = batch.to_torch(), model.support.tolist()
    state, wanted, least = policy._noise.bit_generator.state, 0.0, []
    with torch.no_grad():
        action = model.policy(columns["next_obs"])["mean"].tanh()
        noise = (0.3 * policy._normal(action)).clamp(-0.2, 0.2)
        share = target.outputs(columns["next_obs"], (action + noise).clamp(-1, 1)).softmax(-1)
        log = model.outputs(columns["obs"], (columns["action"] - 0.5) / 2.5).log_softmax(-1)
        for row in range(24):
            reward, done = float(columns["reward"][row]), float(columns["done"][row])
            found = [projected(share[e, row], reward, done, support) for e in range(2)]
            means = [sum(p * z for p, z in zip(each, support, strict=True)) for each in found]
            least.append(int(np.argmin(means)))
            for network in range(2):
                chosen = found[least[-1]] if clipped else found[network]
                for p, each in zip(chosen, log[network, row], strict=True):
                    wanted -= p * float(each) / 24
    assert {0, 1} == {*least}
    policy._noise.bit_generator.state = state
    result = policy.learn_mode.forward(batch)
    assert float(result["critic_loss"]) == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("clipped", [True, False])
def test_the_actor_maximizes_the_lower_value_or_the_mean(clipped: bool) -> None:
    policy, obs = made(clipped=clipped), samples().to_torch()["obs"]
    model = policy.get_attribute("model")
    with torch.no_grad():
        logit = model.outputs(obs, model.policy(obs)["mean"].tanh())
        q = (logit.softmax(-1) * model.support).sum(-1)
        pairs = [(float(q[0, row]), float(q[1, row])) for row in range(24)]
    wanted = -sum(min(pair) if clipped else sum(pair) / 2 for pair in pairs) / 24
    assert policy._actor_loss(obs).item() == pytest.approx(wanted, rel=1e-4)


def test_targets_move_at_every_update_and_the_actor_at_every_second() -> None:
    policy, batch = made(target_theta=0.25), samples()
    model, target = policy.get_attribute("model"), policy.get_attribute("target_model")
    moved = []
    for _ in range(4):
        before = target.critic.weights[0].clone()
        actor = [each.clone() for each in model.actor.parameters()]
        result = policy.learn_mode.forward(batch)
        wanted = before + 0.25 * (model.critic.weights[0] - before)
        torch.testing.assert_close(target.critic.weights[0], wanted)
        moved.append(
            any(not a.equal(b) for a, b in zip(actor, model.actor.parameters(), strict=True))
        )
        assert (result["actor_loss"] is not None) == moved[-1]
    assert moved == [False, True, False, True]


def test_each_environment_keeps_its_noise_for_an_episode() -> None:
    policy = made(collect={"noise_min": 0.01, "noise_max": 0.5})
    obs = np.zeros((3, 4), np.float32)
    mean = (policy.eval_mode.forward(EnvBatch(np.arange(3), obs)).value["action"] - 0.5) / 2.5
    with torch.no_grad():
        for parameter in policy.get_attribute("model").actor.parameters():
            parameter.mul_(0.01)  # so that nothing is clipped
    mean = (policy.eval_mode.forward(EnvBatch(np.arange(3), obs)).value["action"] - 0.5) / 2.5

    def deviations(ids: list[int], steps: int = 1500) -> np.ndarray[Any, Any]:
        seen = EnvBatch(np.array(ids), obs[: len(ids)])
        drawn = [policy.collect_mode.forward(seen).value["action"] for _ in range(steps)]
        unit = (np.stack(drawn) - 0.5) / 2.5 - mean[: len(ids)]
        return np.median(np.abs(unit), (0, 2)) / 0.6745  # clipping does not move it

    first = deviations([0, 1, 2])
    assert len({*first.round(2)}) == 3
    assert all(0.005 < each < 0.55 for each in first)
    kept = policy.collect_mode.get_attribute("collect_state")
    assert [*kept["env_id"]] == [0, 1, 2]
    assert kept["std"] == pytest.approx(first, rel=0.1)
    policy.collect_mode.reset([1])
    again = (
        policy.collect_mode.forward(EnvBatch(np.arange(3), obs))
        and (policy.collect_mode.get_attribute("collect_state")["std"])
    )
    assert (again == kept["std"]).tolist() == [True, False, True]
    policy.collect_mode.set_attribute("collect_state", kept)
    assert policy.collect_mode.get_attribute("collect_state")["std"].tolist() == [*kept["std"]]
    policy.collect_mode.reset()
    assert not len(policy.collect_mode.get_attribute("collect_state")["std"])


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"collect": {"noise_min": 0.5}}, "noise_max"),
        ({"collect": {"noise": 0.1}}, "noise"),
        ({"learn": {"target_noise": 0.0, "target_noise_clip": 0.1}}, "target_noise_clip"),
        ({"model": {**SMALL, "num_critics": 1}}, "num_critics"),
        ({"model": {**SMALL, "stochastic": True}}, "deterministic"),
        ({"model": {**SMALL, "v_min": 5.0}}, "v_max"),
        ({"learn": {"batch_size": 64}, "other": {"replay_buffer": {"replay_buffer_size": 32}}},
         "must be <= 32"),
    ],
)  # fmt: skip
def test_what_it_does_not_do_is_refused(config: Any, problem: str) -> None:
    given = {"type": "fast_td3", "model": SMALL, "learn": {"batch_size": 8}, **config}
    with pytest.raises(ConfigError, match=problem):
        create_policy(given, observation_space=VECTOR, action_space=BOX)


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    options = [
        "policy.model.actor_hidden_size_list=[8]", "policy.model.critic_hidden_size_list=[8]",
        "policy.learn.batch_size=8", "policy.collect.n_sample=4", "env.collector_env_num=4",
        "policy.collect.random_collect_size=20", "policy.nstep=3",
    ]  # fmt: skip
    one, two = same_after_resume("fast_td3", "pendulum", options, tmp_path, 96)
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_the_preset_fits_its_task() -> None:
    pytest.importorskip("dicore_contrib_envs")
    compiled = compile_config(preset="pendulum_fast_td3")
    assert (compiled.policy.type, compiled.env.type) == ("fast_td3", "pendulum")
