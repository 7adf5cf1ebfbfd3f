"""Recurrent SAC and TD3: losses by loops over steps, warm-up, acting, bad input, exact resuming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.config import compile_config
from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, SchemaError, UsageError
from dicore.run.random import seed_everything
from dicore_contrib import RecurrentQAC, RecurrentSACPolicy, RecurrentTD3Policy
from dicore_plugins.buffers import SequenceReplayBuffer
from dicore_plugins.export.greedy_module import greedy_module
from dicore_plugins.functional import to_batch
from dicore_plugins.models import QAC
from dicore_plugins.policies import create_policy
from tests.plugins.policies.resuming import same_after_resume

VECTOR, BOX = spaces.Box(-1, 1, (2,), np.float32), spaces.Box(-2, 3, (1,), np.float32)
BURN_IN, STEPS = 2, 5
SMALL: dict[str, Any] = {
    "actor_hidden_size_list": [8], "critic_hidden_size_list": [8], "rnn_hidden_size": 4,
    "embedding_size": 4,
}  # fmt: skip
KINDS = [("recurrent_sac", "gru"), ("recurrent_sac", "lstm"), ("recurrent_td3", "gru")]


def made(kind: str = "recurrent_sac", rnn: str = "gru", **learn: Any) -> Any:
    seed_everything(0)
    options = {"target_noise": 0.0} if kind == "recurrent_td3" else {}
    policy = create_policy(
        {
            "type": kind, "model": {**SMALL, "rnn": rnn}, "discount_factor": 0.9,
            "learn": {**options, **learn},
            "other": {
                "replay_buffer": {"burn_in": BURN_IN, "unroll_len": STEPS - BURN_IN, "stride": 1}
            },
        },
        observation_space=VECTOR,
        action_space=BOX,
    )  # fmt: skip
    with torch.no_grad():
        for parameter in policy.get_attribute("target_model").parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return policy


def sequences(policy: Any, count: int = 3) -> Batch:
    """Returns sequences: one amid an episode, one that begins it, one that ends it early."""
    rng, shape = np.random.default_rng(0), (count, STEPS)
    obs = rng.uniform(-1, 1, (count, STEPS + 1, 2)).astype(np.float32)
    mask, done = np.ones(shape, np.float32), np.zeros(shape, np.float32)
    mask[0, :BURN_IN] = mask[2, :BURN_IN] = mask[2, 4:] = 0
    done[2, 3] = 1
    state = rng.uniform(-1, 1, (count, policy.get_attribute("model").state_size))
    state[1] = 0
    return Batch(
        {
            "obs": obs[:, :-1], "next_obs": obs[:, 1:], "done": done, "loss_mask": mask,
            "action": rng.uniform(-2, 3, (*shape, 1)).astype(np.float32),
            "reward": rng.standard_normal(shape).astype(np.float32),
            "prev_state": state.astype(np.float32),
        },
        count,
    )  # fmt: skip


def features(part: Any, obs: Any, state: torch.Tensor) -> list[torch.Tensor]:
    """Follows one sequence step by step."""
    found, state = [], state[None]
    for each in obs:
        x = torch.from_numpy(each)[None]
        output, state = part.memory.rnn(part.memory.embed(x).relu(), state)
        found.append(torch.cat([output, x], -1))
    return found


@pytest.mark.parametrize(("kind", "rnn"), KINDS)
def test_the_critic_learns_from_each_chosen_step_by_loops(kind: str, rnn: str) -> None:
    policy = made(kind, rnn)
    batch, model = sequences(policy), policy.get_attribute("model")
    target, half = policy.get_attribute("target_model"), model.state_size // 2
    actor = model if kind == "recurrent_sac" else target
    drawn: list[torch.Tensor] = []

    def noise(like: torch.Tensor) -> torch.Tensor:
        drawn.append(torch.full_like(like, 0.5))
        return drawn[-1]

    policy._normal = noise
    errors = []
    with torch.no_grad():
        for row in range(3):
            obs = np.concatenate([batch["obs"][row], batch["next_obs"][row, -1:]])
            state = torch.from_numpy(batch["prev_state"][row])
            acting = features(actor.actor, obs, state[:half])
            judging = features(target.critic, obs, state[half:])
            now = features(model.critic, obs, state[half:])
            for step in range(STEPS):
                if not batch["loss_mask"][row, step]:
                    continue
                head = actor.actor.head(acting[step + 1])
                after = head.tanh() if kind == "recurrent_td3" else None
                bonus = 0.0
                if after is None:
                    mean, log_std = head.chunk(2, -1)
                    pre = mean + log_std.exp() * 0.5
                    after = pre.tanh()
                    normal = torch.distributions.Normal(mean, log_std.exp())
                    bonus = float(normal.log_prob(pre) - torch.log(1 - after**2))
                q = target.critic.head(torch.cat([judging[step + 1], after], -1)).min()
                y = batch["reward"][row, step] + 0.9 * (1 - batch["done"][row, step]) * (q - bonus)
                taken = (torch.from_numpy(batch["action"][row, step]) - 0.5) / 2.5
                found = model.critic.head(torch.cat([now[step], taken[None]], -1)).flatten()
                errors.append((found - y).square().sum())
    loss = policy.learn_mode.forward(batch)["critic_loss"]
    assert float(loss) == pytest.approx(float(torch.stack(errors).mean()), rel=1e-3)


def test_single_steps_are_sequences_of_one() -> None:
    found = []
    for single in (False, True):
        policy = made()
        columns = {key: each[:, :1] for key, each in sequences(policy).items()}
        columns["prev_state"] = sequences(policy)["prev_state"]
        columns.pop("loss_mask")
        if single:
            columns = {k: v if k == "prev_state" else v[:, 0] for k, v in columns.items()}
        policy._normal = torch.zeros_like
        found.append(float(policy.learn_mode.forward(Batch(columns, 3))["total_loss"]))
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", ["recurrent_sac", "recurrent_td3"])
def test_what_is_not_chosen_is_not_learned_from(kind: str) -> None:
    found = []
    for spoilt in (False, True):
        policy = made(kind)
        batch = sequences(policy)
        if spoilt:
            batch["reward"][0, :BURN_IN] = 99
            for key in ("obs", "next_obs", "reward", "action"):
                batch[key][2, 4:] = 1
        for _ in range(2):
            policy.learn_mode.forward(batch)
        found.append(policy.learn_mode.state_dict()["model"])
    assert all(torch.equal(found[0][key], found[1][key]) for key in found[0])


def test_the_warm_up_of_a_sequence_amid_an_episode_has_no_gradient() -> None:
    policy = made()
    model, batch = policy.get_attribute("model"), sequences(policy).to_torch()
    for row, learned in ((0, False), (1, True)):
        steps = policy._steps_of(Batch({k: v[row : row + 1] for k, v in batch.items()}, 1))
        first = steps["obs"].obs.requires_grad_()
        chosen = torch.zeros_like(steps["obs"].chosen)
        chosen[-1] = True
        q = model.q(steps["obs"]._replace(chosen=chosen), torch.zeros(1, 1))
        (slope,) = torch.autograd.grad(q.sum(), first)
        assert bool(slope[:BURN_IN].abs().sum() > 0) == learned
        assert slope[BURN_IN:STEPS].abs().sum() > 0


def test_acting_remembers_each_environment_and_forgets_at_a_reset() -> None:
    policy = made()
    obs = np.random.default_rng(1).uniform(-1, 1, (3, 2, 2)).astype(np.float32)
    model, played = policy.get_attribute("model"), []
    for each in obs:
        output = policy.collect_mode.forward(EnvBatch(np.array([4, 1]), each)).value
        played.append(output)
    assert (played[0]["prev_state"] == 0).all()
    state = torch.zeros(2, model.state_size)
    for each, output in zip(obs, played, strict=True):
        assert torch.allclose(torch.from_numpy(output["prev_state"]), state, atol=1e-6)
        with torch.no_grad():
            step = model(torch.from_numpy(each), state)
        np.testing.assert_allclose(output["mean"], step["mean"], atol=1e-6)
        state = step["hidden"]
    policy.collect_mode.reset([1])
    again = policy.collect_mode.forward(EnvBatch(np.array([4, 1]), obs[0])).value["prev_state"]
    assert np.abs(again[0]).sum() > 0
    assert (again[1] == 0).all()
    evaluated = [policy.eval_mode.forward(EnvBatch(np.array([1]), obs[0][:1])) for _ in range(2)]
    assert not np.array_equal(*(each.value["action"] for each in evaluated))


@pytest.mark.parametrize("kind", ["recurrent_sac", "recurrent_td3"])
def test_an_exported_network_acts_as_the_policy_with_its_memory(kind: str) -> None:
    policy = made(kind)
    module, hidden = greedy_module(policy), torch.zeros(3, 8)
    rng, seen = np.random.default_rng(0), []
    for _ in range(4):
        obs = rng.standard_normal((3, 2)).astype(np.float32)
        acted = policy.eval_mode.forward(EnvBatch(np.arange(3), obs)).value["action"]
        action, hidden = module(torch.from_numpy(obs), hidden)
        np.testing.assert_allclose(action, acted, atol=1e-5)
        seen.append(acted)
    assert np.ptp(np.stack(seen)) > 0


def test_outputs_before_tanh_are_a_part_of_the_loss_of_td3() -> None:
    losses = []
    for weight in (0.0, 0.5):
        policy = made("recurrent_td3", output_weight=weight)
        model = policy.get_attribute("model")
        batch = policy._steps_of(to_batch(sequences(policy), torch.device("cpu")))
        with torch.no_grad():
            output = model.policy(batch["obs"])["mean"]
            value = model.q(batch["obs"], output.tanh())[0].mean()
        found = policy._update_actor(batch)["actor_loss"]
        wanted = -value + weight * value.abs() * output.square().mean()
        torch.testing.assert_close(found, wanted)
        losses.append(float(found))
    assert losses[0] != losses[1]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"other": {"replay_buffer": {"type": "naive"}}}, "must be 'sequence'"),
        ({"other": {"replay_buffer": {"state_keys": []}}}, "prev_state"),
        ({"other": {"replay_buffer": {"state_every": 4}}}, "must be 0"),
        ({"other": {"replay_buffer": {"unroll_len": 1}}}, "2 or more"),
        ({"other": {"replay_buffer": {"stride": 33}}}, "stride: must be <= unroll_len = 32"),
        ({"other": {"replay_buffer": {"newest": 33}}}, "newest: must be <= learn.batch_size"),
        ({"other": {"replay_buffer": {"eta": 0.3}}}, "eta: has no effect without priority"),
        ({"nstep": 3}, "single rewards"),
        ({"priority": True}, "draws sequences uniformly"),
        ({"learn": {"compile": True}}, "varying size"),
        ({"model": {"obs_norm": True}}, "obs_norm"),
        ({"collect": {"unroll_len": 4}}, "replay_buffer"),
    ],
)
def test_what_it_does_not_do_is_refused(options: Any, problem: str) -> None:
    for kind in ("recurrent_sac", "recurrent_td3"):
        with pytest.raises(ConfigError, match=problem):
            compile_config({"env": "pendulum", "policy": {"type": kind, **options}})


def test_foreign_networks_spaces_and_single_steps_are_refused() -> None:
    with pytest.raises(ConfigError, match="bounded real numbers"):
        create_policy(
            {"type": "recurrent_sac"}, observation_space=VECTOR, action_space=spaces.Discrete(2)
        )
    policy = made()
    with pytest.raises(UsageError, match="RecurrentQAC"):
        RecurrentSACPolicy(policy.get_attribute("cfg"), QAC(2, 1))
    steps = {key: each[:, 0] for key, each in sequences(policy).items() if key != "prev_state"}
    with pytest.raises(SchemaError, match="prev_state"):
        policy.learn_mode.forward(Batch(steps, 3))
    assert isinstance(made("recurrent_td3"), RecurrentTD3Policy)
    assert isinstance(policy.get_attribute("model"), RecurrentQAC)


def test_a_buffer_of_short_episodes_gives_what_it_learns_from() -> None:
    policy = made()
    size = policy.get_attribute("model").state_size
    buffer: Any = SequenceReplayBuffer(policy.get_attribute("cfg").other.replay_buffer)
    rng = np.random.default_rng(0)
    obs = rng.uniform(-1, 1, (41, 2)).astype(np.float32)
    number = np.arange(40)
    buffer.push(Batch({
        "obs": obs[:-1], "next_obs": obs[1:], "reward": np.ones(40, np.float32),
        "done": (number % 4 == 3).astype(np.float32), "action": np.zeros((40, 1), np.float32),
        "prev_state": np.zeros((40, size), np.float32), "end": number % 4 == 3,
        "env_id": np.zeros(40, np.int64),
    }))  # fmt: skip
    assert buffer.count() == 10
    for _ in range(3):
        result = policy.learn_mode.forward(buffer.sample_batch(6))
        assert torch.isfinite(result["total_loss"])
        assert "priority" not in result


@pytest.mark.parametrize("kind", ["recurrent_sac", "recurrent_td3"])
def test_a_resumed_run_equals_an_uninterrupted_one(kind: str, tmp_path: Path) -> None:
    """It is stopped amid the episodes of two environments, whose states are kept."""
    options = [
        *(f"policy.model.{name}={size}" for name, size in SMALL.items()),
        "policy.learn.batch_size=4", "policy.collect.n_sample=4", "env.collector_env_num=2",
        "policy.collect.random_collect_size=40", "policy.learn.update_per_step=0.25",
    ]  # fmt: skip
    one, two = same_after_resume(kind, "pendulum", options, tmp_path, 160)
    assert all(torch.equal(one[key], two[key]) for key in one)


def test_the_presets_fit_their_task() -> None:
    pytest.importorskip("dicore_contrib_envs")
    for kind in ("recurrent_sac", "recurrent_td3"):
        compiled = compile_config(preset=f"pendulum_pomdp_{kind}")
        assert (compiled.env.type, compiled.policy.type) == ("pendulum_pomdp", kind)
