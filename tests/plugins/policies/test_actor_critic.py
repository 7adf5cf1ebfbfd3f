"""PPO, A2C and REINFORCE: samples, updates, normalisers, annealing, what bad input gets."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.config import compile_config
from dicore.config.checks import bind
from dicore.data import Batch
from dicore.errors import ConfigError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.interfaces.policy import Tail
from dicore.run.random import seed_everything
from dicore_plugins.collectors import SampleCollector
from dicore_plugins.env_managers import BaseEnvManager
from dicore_plugins.evaluators import InteractionEvaluator
from dicore_plugins.models import MLP
from dicore_plugins.policies import A2CPolicy, PGPolicy, PPOPolicy
from dicore_plugins.policies.fitting import fitting
from tests.plugins.policies.resuming import same_after_resume
from tests.soak import some

VECTOR, BOX = spaces.Box(-1, 1, (2,), np.float32), spaces.Box(-1, 1, (2,), np.float32)
BEST: dict[str, tuple[gym.Space[Any], Any]] = {
    "discrete": (spaces.Discrete(3), 1),
    "start": (spaces.Discrete(3, start=5), 6),
    "multi_discrete": (spaces.MultiDiscrete([3, 4], start=[-1, 7]), [1, 8]),
    "multi_binary": (spaces.MultiBinary(3), [1, 0, 1]),
    "box": (spaces.Box(-1, 2, (2,), np.float32), [0.5, 1.5]),
    "box_2d": (spaces.Box(-2, 2, (2, 1), np.float32), [[1.0], [-1.0]]),
    "box_float64": (spaces.Box(-2, 2, (1,), np.float64), [0.5]),
    "shifted": (spaces.Box(3, 7, (2,), np.float32), [4.2, 6.5]),
    "wide": (spaces.Box(-100, 100, (2,), np.float32), [60.0, -40.0]),
    "unbounded": (spaces.Box(-np.inf, np.inf, (1,), np.float32), [1.0]),
}


class Guess(gym.Env[Any, Any]):
    """Random observations; the reward is the nearness to the best action."""

    def __init__(self, actions: gym.Space[Any], best: Any, observed: Any = VECTOR) -> None:
        self.observation_space, self.action_space, self.best = observed, actions, np.asarray(best)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        ends = bool(self.np_random.random() < 0.4)
        if isinstance(self.action_space, spaces.Box):
            reward = -float(np.abs(action - self.best).mean())
        else:
            reward = float(np.mean(action == self.best))
        return self.observation_space.sample(), reward, ends, False, {}


def policy_of(name: str, actions: gym.Space[Any], *overrides: str, observed: Any = VECTOR) -> Any:
    compiled = compile_config(
        {"env": {"type": "cartpole"}, "policy": {"type": name}}, overrides=overrides
    )
    seed_everything(0)
    return bind(compiled, EnvSpec(observed, actions)).policy.build(None)


LEARNS: list[Any] = [("ppo", each) for each in some([*BEST], 6, "heads")]
LEARNS += [("pg", "multi_discrete")]
LEARNS += [("a2c", each) for each in ("start", "box")]
LEARNS += [
    pytest.param(name, each, marks=pytest.mark.soak)
    for name, each in (
        ("pg", "start"),
        ("pg", "box"),
        ("a2c", "multi_discrete"),
        ("a2c", "shifted"),
    )
]
"""Heads of actions are those of PPO; each algorithm learns one discrete and one continuous."""


@pytest.mark.parametrize(("name", "form"), LEARNS)
def test_the_best_action_is_learned(name: str, form: str) -> None:
    actions, best = BEST[form]
    options = ["policy.learn.learning_rate=0.01", "policy.discount_factor=0.0"]
    options += ["policy.model.encoder_hidden_size_list=[16]", "policy.collect.gae_lambda=0.0"]
    if name != "pg":
        options += ["policy.learn.batch_size=64", "policy.learn.adv_norm=true"]
    policy = policy_of(name, actions, *options)
    manager = BaseEnvManager([lambda: Guess(actions, best)] * 8)
    manager.seed(0)
    collector = SampleCollector(None, manager, policy.collect_mode)
    amount = {"n_episode": 32} if name == "pg" else {"n_sample": 128}
    for _ in range({"ppo": 12, "a2c": 60, "pg": 40}[name]):
        policy.learn_mode.forward(collector.collect_batch(**amount))
    chosen = policy.eval_mode.forward(manager.ready_obs).value["action"]
    collector.close()
    if isinstance(actions, spaces.Box):
        width = max(1.0, float(np.ptp((actions.low, actions.high), 0).max()) / 4)
        assert np.abs(chosen - np.asarray(best)).mean() < 0.35 * (width if width < np.inf else 1)
    else:
        assert (chosen == np.asarray(best)).mean() > 0.9


@pytest.mark.parametrize("shape", [(), (1,), (2, 1)])
def test_actions_have_the_shape_of_the_space(shape: tuple[int, ...]) -> None:
    policy = policy_of("ppo", spaces.Box(-2, 2, shape, np.float32))
    obs = dict.fromkeys(range(3), np.zeros(2, np.float32))
    for mode in (policy.collect_mode, policy.eval_mode):
        assert mode.forward(obs).value["action"].shape == (3, *shape)


# ---- samples


def block_of(policy: Any, steps: int = 6, envs: int = 3, seed: int = 0) -> tuple[Batch, Tail, Any]:
    """A block that the policy acted in, its tail, and next_obs."""
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(steps + 1, envs, 2)).astype(np.float32)
    rows = [policy.collect_mode.forward(dict(enumerate(obs[t]))).value for t in range(steps)]
    end = rng.random((steps, envs)) < 0.3
    done = end & (rng.random((steps, envs)) < 0.5)
    at = np.flatnonzero(end)
    finals = rng.normal(size=(len(at), 2)).astype(np.float32)
    after = obs[1:].copy()
    after.reshape(-1, 2)[at] = finals
    columns: dict[str, Any] = {
        "obs": obs[:-1].copy(),
        "reward": rng.normal(size=(steps, envs)).astype(np.float32),
        "done": done,
        "end": end,
        "valid": np.ones((steps, envs), np.bool_),
        "env_id": np.tile(np.arange(envs), (steps, 1)),
    }
    kept = ("action", "raw_action", "logit", "mean", "log_std")
    for key in kept:
        if key in rows[0]:
            columns[key] = np.stack([row[key] for row in rows])
    return Batch(columns, steps), Tail(obs[-1], at, finals, steps), after


def advantages(columns: Any, value: Any, after: Any, gamma: float, lam: float) -> Any:
    """The definition, in doubles."""
    steps, envs = columns["end"].shape
    found = np.zeros((steps, envs))
    for env in range(envs):
        later = 0.0
        for t in reversed(range(steps)):
            alive, going = 1 - columns["done"][t, env], 1 - columns["end"][t, env]
            delta = columns["reward"][t, env] + gamma * alive * after[t, env] - value[t, env]
            later = delta + gamma * lam * going * later
            found[t, env] = later
    return found


def values(policy: Any, obs: Any) -> Any:
    with torch.no_grad():
        value = policy.get_attribute("model")(torch.from_numpy(obs.reshape(-1, 2)))["value"]
    return value.double().numpy().reshape(obs.shape[:-1])


@pytest.mark.parametrize("actions", [spaces.Discrete(3), BOX], ids=["discrete", "box"])
@pytest.mark.parametrize("ignore", [False, True])
def test_samples_have_advantages_and_the_log_probability_of_acting(
    actions: Any, ignore: bool
) -> None:
    """Truncations bootstrap from the last observation of the episode, terminations do not."""
    policy = policy_of("ppo", actions, f"policy.learn.ignore_done={ignore}".lower())
    block, tail, next_obs = block_of(policy)
    before = block.copy()
    samples = policy.collect_mode.get_train_sample(block, tail)
    columns = {**block.columns, "done": block["done"] & (not ignore)}
    value, after = values(policy, block["obs"]), values(policy, next_obs)
    wanted = advantages(columns, value, after, 0.99, 0.95)
    np.testing.assert_allclose(samples["advantage"], wanted.ravel(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(samples["target"], (wanted + value).ravel(), rtol=1e-4, atol=1e-5)
    if "logit" in block:
        logit = block["logit"].astype(np.float64).reshape(-1, 3)
        log_p = logit - np.log(np.exp(logit).sum(1, keepdims=True))
        log_prob = log_p[np.arange(len(logit)), block["action"].ravel()]
    else:
        z = (block["raw_action"] - block["mean"]) / np.exp(block["log_std"])
        log_prob = -(z**2 / 2 + block["log_std"] + np.log(2 * np.pi) / 2).sum(-1).ravel()
    np.testing.assert_allclose(samples["log_prob"], log_prob, rtol=1e-4, atol=1e-5)
    assert all(np.array_equal(block[key], before[key]) for key in before.keys())  # noqa: SIM118


def test_rows_of_abnormal_episodes_do_not_spread() -> None:
    policy = policy_of("ppo", spaces.Discrete(3))
    block, tail, _ = block_of(policy, steps=5, envs=2)
    block["end"][:], block["done"][:] = False, False
    tail = tail._replace(final_index=np.array([2]), final_obs=block["obs"][0, :1].copy())
    block["end"][1, 0] = True
    block["valid"][2:4, 0] = False
    for key in ("obs", "reward"):
        block[key][2:4, 0] = np.nan
    samples = policy.collect_mode.get_train_sample(block, tail)
    assert len(samples) == 8
    assert all(np.isfinite(each).all() for each in samples.columns.values())


@pytest.mark.parametrize("name", ["ppo", "a2c", "pg", "impala", "sac", "td3"])
def test_rewards_per_agent_are_refused(name: str) -> None:
    policy = policy_of(name, BOX)
    block = Batch({"reward": np.zeros((3, 2, 4), np.float32), "end": np.zeros((3, 2), np.bool_)})
    with pytest.raises(UsageError, match=rf"policy {name} learns from one reward .* \[4\]"):
        policy.collect_mode.get_train_sample(block, None)


def test_masked_actions_are_never_chosen_and_have_their_probability() -> None:
    observed = spaces.Dict({"x": VECTOR, "action_mask": spaces.MultiBinary(3)})
    policy = policy_of("ppo", spaces.Discrete(3), observed=observed)
    obs = {"x": np.zeros((500, 2), np.float32), "action_mask": np.tile([[1, 0, 1]], (500, 1))}
    rows = {i: {key: each[i] for key, each in obs.items()} for i in range(500)}
    output = policy.collect_mode.forward(rows).value
    assert set(output["action"].tolist()) == {0, 2}
    columns = {
        "obs": {key: each[None] for key, each in obs.items()},
        **{key: output[key][None] for key in ("action", "logit")},
        "reward": np.zeros((1, 500), np.float32),
        **{key: np.zeros((1, 500), np.bool_) for key in ("done", "end")},
        "env_id": np.arange(500)[None],
    }
    tail = Tail(obs, np.empty(0, np.int64), {k: v[:0] for k, v in obs.items()}, 1)
    samples = policy.collect_mode.get_train_sample(Batch(columns, 1), tail)
    np.testing.assert_allclose(np.exp(samples["log_prob"]), 0.5, atol=0.02)
    result = policy.learn_mode.forward(samples)[0]
    assert result["entropy"].item() == pytest.approx(np.log(2), abs=0.01)
    assert abs(result["approx_kl"].item()) < 1e-6


# ---- updates


def samples_of(policy: Any, **size: int) -> Batch:
    block, tail, _ = block_of(policy, **size)
    found: Batch = policy.collect_mode.get_train_sample(block, tail)
    return found


@pytest.mark.parametrize("actions", [spaces.Discrete(3), BOX], ids=["discrete", "box"])
def test_the_first_update_starts_at_ratio_one(actions: Any) -> None:
    policy = policy_of("ppo", actions, "policy.learn.batch_size=null")
    results = policy.learn_mode.forward(samples_of(policy))
    assert len(results) == 10
    assert abs(results[0]["approx_kl"].item()) < 1e-6
    assert results[0]["clipfrac"].item() == 0
    assert results[-1]["approx_kl"].item() > 0
    assert results[0]["policy_loss"].item() == pytest.approx(0, abs=1e-5)  # mean advantage


def test_every_sample_is_used_once_per_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = policy_of("ppo", spaces.Discrete(3), "policy.learn.batch_size=7",
                       "policy.learn.epoch_per_collect=3")  # fmt: skip
    samples, seen = samples_of(policy, steps=10), []
    update = policy._update

    def noted(batch: Batch, **settings: Any) -> Any:
        seen.append(batch)
        return update(batch, **settings)

    monkeypatch.setattr(policy, "_update", noted)
    policy.learn_mode.forward(samples)
    assert [len(each) for each in seen] == [6] * 15  # 30 samples: five parts instead of 4.3
    for epoch in range(3):
        part = torch.cat([each["target"] for each in seen[epoch * 5 : epoch * 5 + 5]])
        assert sorted(part.tolist()) == sorted(samples["target"].tolist())
        assert part.tolist() != samples["target"].tolist()


@pytest.mark.parametrize("dropped", [False, True])
def test_advantages_are_recomputed_before_each_pass(dropped: bool) -> None:
    """By the values of the present network; also if environments lack steps."""
    policy = policy_of("ppo", spaces.Discrete(3), "policy.learn.recompute_adv=true")
    block, tail, next_obs = block_of(policy)
    if dropped:
        block["end"][2, 1] = True
        block["valid"][3:, 1] = False
    samples = policy.collect_mode.get_train_sample(block, tail)
    with torch.no_grad():
        for each in policy.get_attribute("model").parameters():
            each.add_(0.1)
    found = policy._recomputed(samples.to_torch())
    value, after = values(policy, block["obs"]), values(policy, next_obs)
    wanted = advantages(block.columns, value, after, 0.99, 0.95)[block["valid"]]
    np.testing.assert_allclose(found["advantage"], wanted, rtol=1e-4, atol=1e-5)
    target = wanted + value[block["valid"]]
    np.testing.assert_allclose(found["target"], target, rtol=1e-4, atol=1e-5)


def test_updates_end_when_the_policy_has_moved_too_far() -> None:
    options = ("policy.learn.learning_rate=0.05", "policy.learn.target_kl=0.01")
    free, bound = (policy_of("ppo", spaces.Discrete(3), *options[:n]) for n in (1, 2))
    samples = samples_of(free)
    many, few = (each.learn_mode.forward(samples) for each in (free, bound))
    assert 1 <= len(few) < len(many)
    assert all(result["approx_kl"] <= 0.01 for result in few)
    assert many[len(few)]["approx_kl"] > 0.01


def test_normalised_values_learn_returns_of_any_size() -> None:
    """With and without normalisation, the value loss is that of returns scaled to deviation 1."""
    policy = policy_of("a2c", spaces.Discrete(3), "policy.model.value_norm=true",
                       "policy.learn.learning_rate=0.01")  # fmt: skip
    samples = samples_of(policy)
    columns = {**samples.columns, "target": samples["obs"][:, 0] * 300 + 5000}
    for _ in range(300):
        result = policy.learn_mode.forward(Batch(columns, len(samples)))[0]
    assert result["value_loss"] < 0.05
    value = values(policy, samples["obs"])
    np.testing.assert_allclose(value, columns["target"], atol=300)


def test_observation_statistics_follow_the_samples() -> None:
    policy = policy_of("ppo", BOX, "policy.model.obs_norm=true")
    samples = samples_of(policy)
    policy.learn_mode.forward(samples)
    norm = policy.get_attribute("model").obs_norm
    np.testing.assert_allclose(norm.mean, samples["obs"].mean(0), rtol=1e-4, atol=1e-6)
    twin = policy_of("ppo", BOX, "policy.model.obs_norm=true")
    twin.learn_mode.load_state_dict(copy.deepcopy(policy.learn_mode.state_dict()))
    obs = dict(enumerate(samples["obs"]))
    one, two = (each.eval_mode.forward(obs).value["action"] for each in (policy, twin))
    assert np.array_equal(one, two)


class Summed(gym.Wrapper[Any, Any, Any, Any]):
    """Adds up the rewards of each episode as the environment returns them."""

    def __init__(self) -> None:
        super().__init__(gym.make("Pendulum-v1"))
        self.returns: list[float] = []

    def reset(self, **options: Any) -> Any:
        self.returns.append(0.0)
        return super().reset(**options)

    def step(self, action: Any) -> Any:
        result = super().step(action)
        self.returns[-1] += float(result[1])
        return result


def test_evaluations_keep_the_statistics_and_measure_the_returns_of_the_environment() -> None:
    observed = spaces.Box(-8, 8, (3,), np.float32)
    actions = spaces.Box(-2, 2, (1,), np.float32)
    options = ("policy.model.obs_norm=true", "policy.model.value_norm=true",
               "policy.learn.epoch_per_collect=1")  # fmt: skip
    policy = policy_of("ppo", actions, *options, observed=observed)
    manager = BaseEnvManager([Summed] * 2)
    manager.seed(0)
    collector = SampleCollector(None, manager, policy.collect_mode)
    policy.learn_mode.forward(collector.collect_batch(n_sample=64))
    collector.close()
    before = copy.deepcopy(policy.get_attribute("model").state_dict())
    envs = [Summed(), Summed()]
    manager = BaseEnvManager([lambda env=env: env for env in envs])  # type: ignore[misc]
    manager.seed(1)
    evaluator = InteractionEvaluator({"n_episode": 2}, manager, policy.eval_mode)
    returns = evaluator.eval().returns
    evaluator.close()
    assert before["encode.norm.count"] == 64
    assert not torch.equal(before["encode.norm.mean"], torch.zeros(3))
    after = policy.get_attribute("model").state_dict()
    assert all(torch.equal(before[key], after[key]) for key in before)
    assert returns == pytest.approx([env.returns[0] for env in envs])
    assert max(returns) < -100, "rewards of Pendulum, not normalised ones"


def test_learning_rate_and_clip_ratio_fall_with_the_env_steps() -> None:
    options = ("policy.learn.learning_rate_end=0", "policy.learn.clip_ratio_end=0.5",
               "policy.learn.anneal=1000")  # fmt: skip
    policy = policy_of("ppo", spaces.Discrete(3), *options)
    get = policy.command_mode.get_setting_learn
    found = [get({"envstep": step, "learner_step": 0}) for step in (-1, 0, 500, 2000)]
    assert [each["learning_rate"] for each in found] == pytest.approx([3e-4, 3e-4, 1.5e-4, 0])
    assert [each["clip_ratio"] for each in found] == pytest.approx([0.2, 0.2, 0.15, 0.1])
    result = policy.learn_mode.forward(samples_of(policy), **found[2])[0]
    assert result["cur_lr"] == pytest.approx(1.5e-4)
    plain = policy_of("ppo", spaces.Discrete(3))
    assert plain.command_mode.get_setting_learn({"envstep": 5}) == {}


def test_an_update_of_a2c_equals_the_formula() -> None:
    policy = policy_of("a2c", spaces.Discrete(3), "policy.learn.entropy_weight=0.1",
                       "policy.learn.max_grad_norm=null")  # fmt: skip
    samples = samples_of(policy)
    twin = copy.deepcopy(policy.get_attribute("model"))
    batch = samples.to_torch()
    output = twin(batch["obs"])
    log_p = torch.log_softmax(output["logit"], 1)
    taken = log_p.gather(1, batch["action"][:, None])[:, 0]
    loss = -(taken * batch["advantage"]).mean()
    loss = loss + 0.5 * torch.nn.functional.mse_loss(output["value"], batch["target"])
    loss = loss + 0.1 * (log_p.exp() * log_p).sum(1).mean()
    loss.backward()
    (result,) = policy.learn_mode.forward(samples)
    torch.testing.assert_close(result["total_loss"], loss.detach())
    pairs = zip(twin.parameters(), policy.get_attribute("model").parameters(), strict=True)
    for start, found in pairs:  # RMSprop's first step, in plain arithmetic
        assert start.grad is not None
        step = start.grad / ((0.01 * start.grad**2).sqrt() + 1e-5)
        torch.testing.assert_close(found, start - 7e-4 * step)


@pytest.mark.parametrize("baseline", [True, False])
def test_reinforce_learns_from_returns(baseline: bool) -> None:
    policy = policy_of("pg", spaces.Discrete(3), f"policy.learn.baseline={baseline}".lower())
    assert policy.collect_mode.get_attribute("sample_len") == "episode"
    block, tail, _ = block_of(policy, envs=1)
    block["end"][:], block["done"][:] = False, False
    block["end"][-1], block["done"][-1] = True, True
    tail = tail._replace(final_index=np.array([5]), final_obs=np.zeros((1, 2), np.float32))
    samples = policy.collect_mode.get_train_sample(block, tail)
    returns = [sum(0.99**k * r for k, r in enumerate(block["reward"][t:, 0])) for t in range(6)]
    np.testing.assert_allclose(samples["target"], returns, rtol=1e-4, atol=1e-5)
    wanted = returns - samples["value"] if baseline else returns
    np.testing.assert_allclose(samples["advantage"], wanted, rtol=1e-4, atol=1e-5)


RNN = ["policy.model.rnn=gru", "policy.collect.unroll_len=4"]


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("a2c", []),
        ("ppo", ["policy.learn.recompute_adv=true"]),
        ("ppo", RNN),
        ("ppg", ["policy.learn.collect_per_phase=1"]),
        ("impala", ["policy.collect.unroll_len=4"]),
        ("acer", ["policy.collect.unroll_len=4"]),
        ("pqn", []),
    ],
)
def test_values_and_targets_are_those_of_evaluation_mode(
    name: str, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without dropout and by running statistics, as actions are chosen."""
    policy = policy_of(name, spaces.Discrete(3), *options)
    manager = BaseEnvManager([lambda: Guess(spaces.Discrete(3), 1)] * 4)
    manager.seed(0)
    forward, seen = MLP.forward, set()

    def spy(self: MLP, x: Any) -> Any:
        seen.add((self.training, torch.is_grad_enabled()))
        return forward(self, x)

    monkeypatch.setattr(MLP, "forward", spy)
    collector = SampleCollector(None, manager, policy.collect_mode)
    policy.learn_mode.forward(collector.collect_batch(n_sample=16))
    collector.close()
    assert seen - {(True, True)} == {(False, False)}


# ---- whole runs, and what bad input gets


@pytest.mark.parametrize(
    ("name", "env", "options"),
    [
        ("ppo", "cartpole", ["policy.learn.recompute_adv=true", "policy.learn.clip_ratio_end=0.1"]),
        ("ppo", "pendulum", ["policy.model.obs_norm=true", "policy.model.value_norm=true"]),
        ("a2c", "cartpole", []),
        ("pg", "cartpole", ["policy.collect.n_episode=4"]),
    ],
)
def test_a_resumed_run_equals_an_uninterrupted_one(
    name: str, env: str, options: list[str], tmp_path: Path
) -> None:
    sizes = {"ppo": ["policy.collect.n_sample=128", "policy.learn.epoch_per_collect=2"],
             "a2c": ["policy.collect.n_sample=64"], "pg": []}[name]  # fmt: skip

    one, two = same_after_resume(name, env, [*sizes, *options], tmp_path, 256)
    assert all(torch.equal(one[key], two[key]) for key in one)
    assert "buffer" not in json.dumps(sorted(p.name for p in (tmp_path / "whole/ckpt").rglob("*")))


@pytest.mark.parametrize(
    ("name", "override", "message"),
    [
        ("ppo", "policy.learn.update_per_collect=4", "counts passes.*epoch_per_collect"),
        ("a2c", "policy.learn.update_per_collect=4", "a2c counts passes"),
        ("ppo", "policy.nstep=3", "policy.nstep: ppo uses longer returns"),
        ("ppo", "policy.collect.unroll_len=4", "collect.unroll_len: ppo learns from single steps"),
        (
            "pg",
            "policy.collect.collector.type=episode",
            "collect.collector.get_train_sample: pg learns from advantages",
        ),
        ("ppo", "policy.on_policy=false", "on_policy: ppo trains on samples of the current policy"),
        ("ppo", "policy.priority=true", "priority: ppo draws no samples"),
        ("ppo", "policy.multi_gpu=true", "multi_gpu"),
        ("ppo", "policy.learn.dual_clip=0.5", "dual_clip"),
        ("ppo", "policy.learn.optimizer.lr=3", "optimizer"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    name: str, override: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        policy_of(name, spaces.Discrete(3), override)


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [("ppo", "n_episode", "n_sample"), ("a2c", "n_episode", "n_sample"),
     ("pg", "n_sample", "n_episode")],
)  # fmt: skip
def test_the_unit_of_collecting_is_fixed(name: str, wrong: str, right: str) -> None:
    options = (f"policy.collect.{wrong}=8", f"policy.collect.{right}=null")
    with pytest.raises(ConfigError, match=f"collect.{wrong}: {name} collects .*{right}"):
        policy_of(name, spaces.Discrete(3), *options)


@pytest.mark.parametrize(
    ("actions", "needed"),
    [
        (spaces.Dict({"a": spaces.Discrete(2)}), "discrete actions, real numbers, or both as Dict"),
        (spaces.Box(0, 9, (2,), np.int64), "discrete actions"),
        (spaces.Text(3), "discrete actions"),
    ],
    ids=["dict", "integers", "text"],
)
def test_action_spaces_that_do_not_fit_are_refused(actions: Any, needed: str) -> None:
    with pytest.raises(ConfigError, match=rf"policy\.type: 'ppo' needs {needed}"):
        policy_of("ppo", actions)


@pytest.mark.parametrize("cls", [A2CPolicy, PGPolicy, PPOPolicy])
def test_wrong_arguments_are_refused(cls: Any) -> None:
    with pytest.raises(UsageError, match="expected a network"):
        cls(model=3)
    model = {"type": "vac", "obs_shape": 2, "action_shape": 3}
    policy = cls({"model": model})
    with pytest.raises(UsageError, match="unknown argument 'eps'"):
        policy.collect_mode.forward({0: np.zeros(2, np.float32)}, eps=0.1)


class Returns(torch.nn.Module):
    """Returns outputs of given shapes."""

    def __init__(self, **shapes: Any) -> None:
        super().__init__()
        self.shapes, self.weight = shapes, torch.nn.Parameter(torch.ones(1))

    def forward(self, obs: Any) -> dict[str, Any]:
        return {
            name: self.weight * torch.zeros(len(obs), *shape) for name, shape in self.shapes.items()
        }


@pytest.mark.parametrize(
    ("shapes", "continuous", "message"),
    [
        ({"logit": (3,), "value": ()}, False, None),
        ({"mean": (3,), "log_std": (3,), "value": ()}, True, None),
        ({"logit": (4,), "value": ()}, False, r"logit \[2, 4\], value \[2\] .*logit \[2, 3\]"),
        ({"logit": (3,)}, False, r"returns logit \[2, 3\] .*value \[2\]"),
        ({"logit": (3,), "value": (1,)}, False, r"value \[2, 1\] .*value \[2\]"),
        ({"logit": (3,), "value": ()}, True, r"expected mean \[2, 3\], log_std \[2, 3\]"),
    ],
)
def test_a_network_of_other_outputs_is_refused(
    shapes: dict[str, Any], continuous: bool, message: str | None
) -> None:
    config: dict[str, Any] = {"model": {"type": "vac", "obs_shape": 2, "action_shape": 3}}
    if continuous:
        config |= {"action_low": [-1.0] * 3, "action_high": [1.0] * 3}
    if message is not None:
        with pytest.raises(UsageError, match=message):
            PPOPolicy(config, model=Returns(**shapes))
        return
    policy = PPOPolicy(config, model=Returns(**shapes))
    samples = samples_of(policy)
    assert len(policy.learn_mode.forward(samples)) == 10


@pytest.mark.parametrize(
    ("actions", "names"),
    [
        (spaces.Discrete(3), ["a2c", "dqn", "pg", "ppo"]),
        (spaces.MultiDiscrete([2, 3]), ["a2c", "dqn", "pg", "ppo"]),
        (BOX, ["a2c", "pg", "ppo"]),
        (spaces.Dict({"a": BOX}), []),
    ],
    ids=["discrete", "multi_discrete", "box", "dict"],
)
def test_an_error_names_the_policies_that_fit(actions: Any, names: list[str]) -> None:
    assert set(names) <= set(fitting(actions))
    assert bool(names) == bool(fitting(actions))
    if actions is BOX:
        with pytest.raises(ConfigError, match="'dqn' needs discrete actions") as caught:
            policy_of("dqn", actions)
        assert "a2c, " in str(caught.value.hint)
