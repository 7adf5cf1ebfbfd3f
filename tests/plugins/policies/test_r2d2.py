"""R2D2: sequences with stored states, the loss step by step, episodes inside, exact resuming."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore import build
from dicore.data import Batch
from dicore.errors import ConfigError, UsageError
from dicore.interfaces.policy import Tail
from dicore_plugins.models import DQN
from dicore_plugins.policies import DQNPolicy, R2D2Policy
from tests.plugins.policies.test_actor_critic import policy_of
from tests.plugins.policies.test_value_family import resumes_exactly

BURN_IN, UNROLL, NSTEP = 2, 3, 2
LENGTH = BURN_IN + UNROLL + NSTEP
GAMMA = 0.9
SIZES = (
    f"policy.collect.burn_in={BURN_IN}",
    f"policy.collect.unroll_len={UNROLL}",
    f"policy.nstep={NSTEP}",
    f"policy.discount_factor={GAMMA}",
    "policy.model.encoder_hidden_size_list=[8]",
    "policy.model.rnn_hidden_size=5",
)


def r2d2(actions: Any = None, *options: str) -> Any:
    actions = spaces.Discrete(3) if actions is None else actions
    policy = policy_of("r2d2", actions, *SIZES, *options)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():  # another target network, and values that differ
        for model in (policy._model, policy._target_model):
            for each in model.parameters():
                each.add_(0.3 * torch.randn(each.shape, generator=generator))
    return policy


def block_of(steps: int, envs: int = 3, heads: int = 0) -> tuple[Batch, Tail, dict[Any, Any]]:
    """Returns steps with ends, terminated or truncated, and the last observations."""
    rng = np.random.default_rng(0)
    shape = (steps, envs)
    end = rng.random(shape) < 0.25
    done = end & (rng.random(shape) < 0.5)
    obs = rng.normal(size=(steps + 1, envs, 2)).astype(np.float32)
    index = np.flatnonzero(end)
    finals = rng.normal(size=(len(index), 2)).astype(np.float32)
    columns = {
        "obs": obs[:-1],
        "action": rng.integers(0, 3, (*shape, heads) if heads else shape),
        "reward": rng.normal(size=shape).astype(np.float32),
        "done": done,
        "end": end,
        "valid": np.ones(shape, np.bool_),
        "env_id": np.tile(np.arange(envs), (steps, 1)),
        "prev_state": rng.normal(size=(*shape, 10)).astype(np.float32),
    }
    after = {divmod(int(each), envs): final for each, final in zip(index, finals, strict=True)}
    starts = steps - LENGTH + UNROLL
    return Batch(columns, steps), Tail(obs[-1], index, finals, starts), after


def values_of(model: Any, obs: Any, state: Any) -> tuple[list[Any], Any]:
    with torch.no_grad():
        output = model(torch.as_tensor(obs)[None], torch.as_tensor(state)[None])
    logit = output["logit"]
    logit = logit if isinstance(logit, list) else [logit]
    return [each[0].double().numpy() for each in logit], output["hidden"][0].numpy()


def h(x: float) -> float:
    return float(np.sign(x) * (np.sqrt(abs(x) + 1) - 1) + 1e-2 * x)


def h_inv(x: float) -> float:
    inner = np.sqrt(1 + 4e-2 * (abs(x) + 1 + 1e-2)) - 1
    return float(np.sign(x) * ((inner / 2e-2) ** 2 - 1))


def reference(policy: Any, block: Batch, after: Any, start: int, env: int, rescale: bool) -> Any:
    """Returns the TD errors of one sequence, per head: a row of the block after the other."""
    nets = {"online": policy._model, "target": policy._target_model}
    state = dict.fromkeys(nets, block["prev_state"][start, env])
    now: list[dict[str, Any]] = []
    later: list[dict[str, Any]] = []
    for t in range(start, start + LENGTH):
        found = {name: values_of(nets[name], block["obs"][t, env], state[name]) for name in nets}
        now.append({name: each[0] for name, each in found.items()})
        state = {name: each[1] for name, each in found.items()}
        final = after.get((t, env))
        if final is not None:
            later.append({name: values_of(nets[name], final, state[name])[0] for name in nets})
            state = {name: each * 0 for name, each in state.items()}
        elif t + 1 < len(block):
            seen = block["obs"][t + 1, env]
            later.append({name: values_of(nets[name], seen, state[name])[0] for name in nets})
    errors = []
    for step in range(BURN_IN, BURN_IN + UNROLL):
        total, power, last = 0.0, 1.0, step
        for last in range(step, step + NSTEP):
            total += power * float(block["reward"][start + last, env])
            power *= GAMMA
            if block["end"][start + last, env]:
                break
        row = []
        action = np.atleast_1d(block["action"][start + step, env])
        for head, q in enumerate(now[step]["online"]):
            best = later[last]["online"][head].argmax()
            value = later[last]["target"][head][best]
            value = h_inv(value) if rescale else value
            y = total + power * (1 - block["done"][start + last, env]) * value
            row.append(q[action[head]] - (h(y) if rescale else y))
        errors.append(row)
    return np.abs(np.array(errors))


@pytest.mark.parametrize("rescale", [True, False])
@pytest.mark.parametrize("heads", [0, 2])
def test_an_update_equals_the_formula_step_by_step(rescale: bool, heads: int) -> None:
    actions = spaces.MultiDiscrete([3, 3]) if heads else spaces.Discrete(3)
    policy = r2d2(actions, f"policy.learn.value_rescale={rescale}".lower())
    block, tail, after = block_of(4 * UNROLL + LENGTH, heads=heads)
    samples = policy.collect_mode.get_train_sample(block, tail)
    starts = [(start, env) for start in range(0, tail.starts, UNROLL) for env in range(3)]
    assert len(samples) == len(starts) == 15
    assert samples["end"][:, BURN_IN : BURN_IN + UNROLL].any()
    weight = np.linspace(0.2, 1, 15, dtype=np.float32)
    errors = np.array([reference(policy, block, after, *each, rescale) for each in starts])
    losses = np.where(errors <= 1, errors**2 / 2, errors - 0.5).mean((1, 2)) * weight
    result = policy.learn_mode.forward(Batch({**samples.columns, "weight": weight}))
    np.testing.assert_allclose(result["total_loss"], losses.mean(), rtol=1e-4)
    size = errors.mean(2)
    priority = 0.9 * size.max(1) + 0.1 * size.mean(1)
    np.testing.assert_allclose(result["priority"], priority, rtol=1e-3, atol=1e-4)


SEQUENCES: dict[str, Any] = {
    "type": "sequence",
    "replay_buffer_size": 200,
    "burn_in": BURN_IN,
    "unroll_len": UNROLL + NSTEP,
    "stride": UNROLL,
    "state_keys": ["prev_state"],
}


def test_an_update_from_the_sequences_of_a_buffer_equals_the_formula() -> None:
    """Sequences begin with episodes, where the burn-in is learned from too, and end with them."""
    policy = r2d2(None, f"policy.other.replay_buffer={json.dumps(SEQUENCES)}")
    block, tail, _ = block_of(40)
    tail = tail._replace(starts=40 - NSTEP + 1)
    assert (policy._get_sample_len(), policy._get_sample_stride()) == (NSTEP, 1)
    steps = policy.collect_mode.get_train_sample(block, tail)
    assert len(steps) == 3 * (40 - NSTEP + 1)
    buffer = build("buffer", SEQUENCES)
    buffer.push(steps)
    batch = buffer.sample_batch(32)
    nets = {"online": policy._model, "target": policy._target_model}
    errors: list[float] = []
    priorities, fresh = [], 0
    for row in range(32):
        one = {key: np.asarray(batch[key])[row] for key in batch.columns}
        fresh += bool(one["loss_mask"][:BURN_IN].any())
        state = dict.fromkeys(nets, one["prev_state"])
        now, later = [], []
        for t in range(LENGTH):
            found = {name: values_of(nets[name], one["obs"][t], state[name]) for name in nets}
            now.append(found["online"][0][0])
            state = {name: each[1] for name, each in found.items()}
            seen = one["next_obs"][t]
            later.append({name: values_of(nets[name], seen, state[name])[0][0] for name in nets})
        mine = []
        for t in range(LENGTH):
            last = t + int(one["bridge"][t])
            known = last < LENGTH and (last < LENGTH - 1 or one["end"][last])
            if not one["loss_mask"][t] or not known:
                continue
            value = h_inv(later[last]["target"][later[last]["online"].argmax()])
            y = one["reward"][t] + one["value_gamma"][t] * (1 - one["done"][t]) * value
            mine.append(abs(now[t][one["action"][t]] - h(y)))
        errors += mine
        priorities.append(0.9 * max(mine) + 0.1 * np.mean(mine) if mine else 0.0)
    assert 0 < fresh < 32
    size = np.array(errors)
    result = policy.learn_mode.forward(Batch({k: batch[k] for k in batch.columns if k != "IS"}))
    wanted = np.where(size <= 1, size**2 / 2, size - 0.5).mean()
    np.testing.assert_allclose(result["total_loss"], wanted, rtol=1e-4)
    np.testing.assert_allclose(result["priority"], priorities, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [("burn_in", 1, "must be 2, see collect.burn_in"), ("unroll_len", 3, "must be 5"),
     ("stride", None, "must be 3"), ("state_keys", [], "must be")],
)  # fmt: skip
def test_a_buffer_of_other_sequences_is_refused(name: str, value: Any, wanted: str) -> None:
    option = json.dumps({**SEQUENCES, name: value})
    with pytest.raises(ConfigError, match=rf"replay_buffer.{name}: {wanted}"):
        r2d2(None, f"policy.other.replay_buffer={option}")


def test_the_burn_in_has_no_gradient() -> None:
    policy = r2d2()
    samples = policy.collect_mode.get_train_sample(*block_of(LENGTH)[:2])
    batch = Batch({**samples.columns, "end": samples["end"] & False}).to_torch()
    obs, state = batch["obs"].requires_grad_(), batch["prev_state"].requires_grad_()
    policy._loss(Batch({**batch.columns, "obs": obs, "prev_state": state}), None)[0].backward()
    assert (obs.grad[:, :BURN_IN] == 0).all()
    assert (obs.grad[:, BURN_IN : BURN_IN + UNROLL] != 0).any()
    assert state.grad is None or (state.grad == 0).all()


def test_states_are_stored_as_they_were_when_acting() -> None:
    policy, model = r2d2(), None
    model = policy._model
    rng, mode = np.random.default_rng(0), policy.collect_mode
    mode.reset()
    state = {env: np.zeros(10, np.float32) for env in (0, 1)}
    for step in range(4):
        obs = {env: rng.normal(size=2).astype(np.float32) for env in (1, 0)}
        output = mode.forward(obs, eps=0.5)
        for env in obs:
            assert np.allclose(output[env]["prev_state"], state[env], atol=1e-6)
            state[env] = values_of(model, obs[env], state[env])[1]
        if step == 1:
            mode.reset([0])
            state[0] = state[0] * 0
    kept = mode.get_attribute("collect_state")
    before = mode.forward(obs, eps=0.0)[1]["logit"]
    mode.reset()
    assert not np.allclose(mode.forward(obs, eps=0.0)[1]["logit"], before)
    mode.set_attribute("collect_state", kept)
    assert np.array_equal(mode.forward(obs, eps=0.0)[1]["logit"], before)


@pytest.mark.parametrize("forbidden", [0, 2])
def test_targets_choose_no_masked_action(forbidden: int) -> None:
    policy = r2d2()
    block, tail, _ = block_of(LENGTH + UNROLL)
    samples = policy.collect_mode.get_train_sample(block, tail).to_torch()
    mask = torch.ones(*samples["end"].shape, 3, dtype=torch.int8)
    mask[..., forbidden] = 0

    class Blind(torch.nn.Module):
        """Sees the vector of observations with a mask; values of one action are enormous."""

        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner, self.state_size = inner, inner.state_size

        def _lifted(self, output: Any) -> Any:
            lift = torch.zeros(3)
            lift[forbidden] = 1e6
            return {**output, "logit": output["logit"] + lift}

        def forward(self, obs: Any, hidden: Any = None) -> Any:
            return self._lifted(self.inner(obs["vector"], hidden))

        def unroll(self, obs: Any, hidden: Any, end: Any) -> Any:
            return self._lifted(self.inner.unroll(obs["vector"], hidden, end))

    policy._model, policy._target_model = Blind(policy._model), Blind(policy._target_model)
    seen = {key: {"vector": samples[key], "action_mask": mask} for key in ("obs", "next_obs")}
    *_, target = policy._loss(Batch({**samples.columns, **seen}), None)
    assert target.abs().max() < 100


def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    resumes_exactly(
        tmp_path, "cartpole_pomdp", "r2d2", (600, 1100), "policy.learn.update_per_collect=2",
        "policy.collect.random_collect_size=8",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("cls", "options", "problem"),
    [
        (
            R2D2Policy,
            {"traj_len_inf": True},
            "traj_len_inf: R2D2Config learns from pieces",
        ),
        (R2D2Policy, {"collect": {"n_episode": 1, "n_sample": None}}, "collects samples"),
        (DQNPolicy, {"model": {"type": "drqn"}}, "model: dqn keeps no recurrent state"),
    ],
)
def test_options_that_do_not_fit(cls: Any, options: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        cls(options)


def test_a_model_without_memory_is_refused() -> None:
    with pytest.raises(UsageError, match="DQN has no `unroll` and no `state_size`"):
        R2D2Policy({}, model=DQN(2, 2))
