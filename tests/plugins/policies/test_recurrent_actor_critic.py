"""PPO and A2C with a recurrent network: values, sequences, updates, states per environment."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.data import Batch
from dicore.errors import ConfigError
from dicore.interfaces.policy import Tail
from tests.plugins.policies.resuming import same_after_resume
from tests.plugins.policies.test_actor_critic import BOX, advantages, policy_of
from tests.plugins.policies.test_ppo import moved

LENGTH = 4


def made(name: str = "ppo", *options: str, actions: Any = spaces.Discrete(3)) -> Any:  # noqa: B008 - a constant
    return policy_of(
        name, actions, "policy.model.rnn=gru", f"policy.collect.unroll_len={LENGTH}",
        "policy.learn.batch_size=null", *options,
    )  # fmt: skip


def block_of(policy: Any, steps: int = 2 * LENGTH, envs: int = 3) -> tuple[Batch, Tail, Any]:
    """A block that the policy acted in, its tail, and next_obs; states are reset after ends."""
    rng = np.random.default_rng(0)
    obs = rng.normal(size=(steps + 1, envs, 2)).astype(np.float32)
    end = rng.random((steps, envs)) < 0.3
    done = end & (rng.random((steps, envs)) < 0.5)
    rows, mode = [], policy.collect_mode
    mode.reset()
    for t in range(steps):
        rows.append(mode.forward(dict(enumerate(obs[t]))).value)
        mode.reset(np.flatnonzero(end[t]).tolist())
    at = np.flatnonzero(end)
    finals = rng.normal(size=(len(at), 2)).astype(np.float32)
    after = obs[1:].copy()
    after.reshape(-1, 2)[at] = finals
    columns: dict[str, Any] = {
        "obs": obs[:-1].copy(), "reward": rng.normal(size=(steps, envs)).astype(np.float32),
        "done": done, "end": end, "valid": np.ones((steps, envs), np.bool_),
        "env_id": np.tile(np.arange(envs), (steps, 1)),
    }  # fmt: skip
    for key in ("action", "raw_action", "logit", "mean", "log_std", "prev_state"):
        if key in rows[0]:
            columns[key] = np.stack([row[key] for row in rows])
    return Batch(columns, steps), Tail(obs[-1], at, finals, steps), after


def stepped(policy: Any, block: Batch, after: Any) -> tuple[Any, Any, list[Any]]:
    """Values before and after each step, and outputs, one environment and step at a time."""
    model = policy.get_attribute("model")
    steps, envs = block["end"].shape
    value, later = np.zeros((steps, envs)), np.zeros((steps, envs))
    outputs: list[Any] = [[None] * envs for _ in range(steps)]
    with torch.no_grad():
        for env in range(envs):
            hidden = torch.from_numpy(block["prev_state"][0, env])[None]
            for t in range(steps):
                output = model(torch.from_numpy(block["obs"][t, env])[None], hidden)
                outputs[t][env], hidden = output, output["hidden"]
                value[t, env] = output["value"]
                next_obs = torch.from_numpy(after[t, env])[None]
                later[t, env] = model(next_obs, hidden)["value"]
                if block["end"][t, env]:
                    hidden = torch.zeros_like(hidden)
    return value, later, outputs


@pytest.mark.parametrize("actions", [spaces.Discrete(3), BOX], ids=["discrete", "box"])
def test_samples_are_sequences_with_the_state_before_them(actions: Any) -> None:
    policy = made(actions=actions)
    block, tail, after = block_of(policy)
    samples = policy.collect_mode.get_train_sample(block, tail)
    value, later, outputs = stepped(policy, block, after)
    wanted = advantages(block.columns, value, later, 0.99, 0.95)

    def cut(column: Any) -> Any:
        return np.concatenate([column[:LENGTH], column[LENGTH:]], 1).swapaxes(0, 1)

    np.testing.assert_allclose(samples["advantage"], cut(wanted), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(samples["target"], cut(wanted + value), rtol=1e-3, atol=1e-5)
    assert np.array_equal(samples["prev_state"], cut(block["prev_state"])[:, 0])
    key = "logit" if "logit" in block else "mean"
    acted = np.array([[output[key][0].numpy() for output in row] for row in outputs])
    np.testing.assert_allclose(block[key], acted, rtol=1e-4, atol=1e-6)
    fresh = block["prev_state"][1:][block["end"][:-1]]
    assert len(fresh) > 0
    assert not fresh.any(), "after an end the state is zero"
    get = policy.collect_mode.get_attribute
    assert (get("sample_len"), get("sample_stride")) == (LENGTH, LENGTH)


def test_an_episode_that_a_failed_environment_broke_off_has_no_last_observation() -> None:
    """The tail lacks it; the last states of the other episodes keep their observations."""
    policy = made()
    block, tail, _ = block_of(policy)
    broken = 1
    step, env = divmod(int(tail.final_index[broken]), 3)
    assert 0 < broken < len(tail.final_index) - 1
    block["valid"][step, env] = False
    block["done"][step, env] = False
    finals = (np.delete(each, broken, 0) for each in (tail.final_index, tail.final_obs))
    whole = policy.collect_mode.get_train_sample(block, tail)
    found = policy.collect_mode.get_train_sample(block, Tail(tail.obs, *finals, tail.starts))
    for key in ("advantage", "target", "obs"):
        np.testing.assert_allclose(found[key], whole[key], rtol=1e-5, atol=1e-6)
    assert len(found) == 5  # of 6 sequences, one has the row that is not valid


@pytest.mark.parametrize("name", ["ppo", "a2c"])
def test_an_update_unrolls_the_sequences(name: str) -> None:
    """The gradient is that of the network run step by step from the stored states."""
    policy = made(name, "policy.learn.adv_norm=false", "policy.learn.max_grad_norm=null")
    block, tail, _ = block_of(policy)
    samples = policy.collect_mode.get_train_sample(block, tail)
    model = moved(policy, 0.1).get_attribute("model")
    twin, batch = copy.deepcopy(model), samples.to_torch()
    losses = []
    for b in range(len(batch)):
        hidden = batch["prev_state"][b][None]
        for t in range(LENGTH):
            output = twin(batch["obs"][b, t][None], hidden)
            hidden = output["hidden"] * (1 - batch["end"][b, t].float())
            log_prob = torch.log_softmax(output["logit"], 1)[0, batch["action"][b, t]]
            gain, advantage = log_prob, batch["advantage"][b, t]
            if name == "ppo":
                ratio = (log_prob - batch["log_prob"][b, t]).exp()
                gain = torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
            else:
                gain = gain * advantage
            losses.append(-gain + 0.5 * (output["value"][0] - batch["target"][b, t]) ** 2)
    total = torch.stack(losses).mean()
    total.backward()
    result = policy.learn_mode.forward(samples)[0]
    torch.testing.assert_close(result["total_loss"], total.detach(), rtol=1e-4, atol=1e-5)
    if name == "a2c":  # one update, whose gradient is still there
        for found, wanted in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(found.grad, wanted.grad, rtol=1e-3, atol=1e-5)


def test_states_belong_to_environments() -> None:
    """Acting in some environments, and resetting one, leaves the others alone."""
    policy, obs = made(), np.ones((3, 2), np.float32)
    for name in ("collect", "eval"):
        mode = getattr(policy, f"{name}_mode")
        first = mode.forward(dict(enumerate(obs))).value["logit"]
        second = mode.forward({0: obs[0], 2: obs[2]}).value["logit"]
        assert not np.allclose(first[[0, 2]], second)
        mode.reset([0])
        third = mode.forward(dict(enumerate(obs))).value["logit"]
        np.testing.assert_allclose(third[0], first[0], atol=1e-6)
        np.testing.assert_allclose(third[1], second[0], atol=1e-6)
        assert not np.allclose(third[2], second[1])


@pytest.mark.parametrize(("name", "rnn"), [("ppo", "lstm"), ("a2c", "gru")])
def test_a_resumed_run_equals_an_uninterrupted_one(name: str, rnn: str, tmp_path: Path) -> None:
    options = [f"policy.model.rnn={rnn}", "policy.collect.unroll_len=8",
               "policy.collect.n_sample=8", "policy.model.obs_norm=true",
               "policy.model.value_norm=true", "policy.learn.batch_size=4",
               *(["policy.learn.epoch_per_collect=2"] if name == "ppo" else [])]  # fmt: skip
    one, two = same_after_resume(name, "cartpole_pomdp", options, tmp_path, 256)
    assert all(torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize(
    ("name", "override", "message"),
    [
        ("ppo", "policy.collect.unroll_len=1", "unroll_len: a recurrent network learns from"),
        ("ppo", "policy.learn.recompute_adv=true", "recompute_adv: not possible with sequences"),
        ("impala", "policy.nstep=1", "model.rnn: impala keeps no recurrent state"),
        ("pg", "policy.nstep=1", "model.rnn: pg keeps no recurrent state"),
        ("ppo_offpolicy", "policy.nstep=1", "model.rnn: ppo_offpolicy keeps no recurrent state"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    name: str, override: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        made(name, override)
