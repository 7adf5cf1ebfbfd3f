"""Rewards learned from an expert: what they say of its steps, and data that they refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from dicore.config.compiler import compile_section
from dicore.data import Batch
from dicore.errors import ActionError, DicoreError, NonFiniteError, SchemaError, UsageError
from dicore.interfaces.env import EnvSpec
from dicore.run.env_factory import BuildContext
from dicore.run.random import seed_everything
from dicore_plugins.datasets import write_npz
from dicore_plugins.reward_models import (
    GAIL,
    RED,
    TREX,
    GAILConfig,
    GuidedCost,
    RewardNorm,
)

BOX, ACTIONS = spaces.Box(-10.0, 10.0, (3,), np.float32), spaces.Discrete(2)


def made(cls: type[Any], **cfg: Any) -> Any:
    seed_everything(0)
    return cls(cfg, observation_space=BOX, action_space=ACTIONS)


def samples(count: int = 200, *, expert: bool = True, seed: int = 0) -> Batch:
    """Steps in which the expert acts by the sign of the first number; others do the opposite."""
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(count, 3)).astype(np.float32)
    action = (obs[:, 0] > 0).astype(np.int64)
    return Batch({
        "obs": obs, "next_obs": obs, "action": action if expert else 1 - action,
        "reward": np.zeros(count, np.float32), "done": np.zeros(count, np.float32),
    })  # fmt: skip


@pytest.mark.parametrize(
    ("reward", "gradient_penalty"), [("gail", 0.0), ("log_d", 0.0), ("airl", 1.0)]
)
def test_gail_pays_for_the_steps_of_the_expert(reward: str, gradient_penalty: float) -> None:
    model = made(
        GAIL, reward=reward, gradient_penalty=gradient_penalty, update_per_collect=60,
        activation="tanh", learning_rate=3e-3,
    )  # fmt: skip
    model.load_expert_data(samples())
    model.collect_data(samples(expert=False))
    for _ in range(3):
        model.train()
    good = model.estimate(samples(seed=1))["reward"]
    bad = model.estimate(samples(expert=False, seed=1))["reward"]
    assert good.mean() > bad.mean() + 0.5
    sign = {"gail": (good > 0).all(), "log_d": (good < 0).all(), "airl": (bad < 0).mean() > 0.8}
    assert sign[reward]


@pytest.mark.parametrize("known", ["nothing", "log_prob", "logit", "mean"])
def test_guided_cost_pays_for_the_steps_of_the_expert(known: str) -> None:
    """A step that the agent seldom takes counts more, by what is known of its probabilities."""
    model = made(GuidedCost, update_per_collect=60, learning_rate=3e-3)
    model.load_expert_data(samples())
    own, rng = samples(expert=False), np.random.default_rng(1)
    logit = rng.normal(size=(200, 2)).astype(np.float32)
    log_prob = logit - np.log(np.exp(logit).sum(1, keepdims=True))
    taken = log_prob[np.arange(200), own["action"]]
    added = {"nothing": {}, "log_prob": {"log_prob": taken}, "logit": {"logit": logit}, "mean": {}}
    own.columns.update(added[known])
    found = model._log_prob(own)
    np.testing.assert_allclose(found, taken if added[known] else np.zeros(200), atol=1e-5)
    if known == "mean":
        own.columns["action"] = rng.normal(size=(200, 2)).astype(np.float32)
        own.columns.update(mean=own["action"] + 1, log_std=np.zeros((200, 2), np.float32))
        np.testing.assert_allclose(model._log_prob(own), -1 - np.log(2 * np.pi), rtol=1e-5)
        return
    model.collect_data(own)
    for _ in range(3):
        model.train()
    good = model.estimate(samples(seed=1))["reward"].mean()
    assert good > model.estimate(samples(expert=False, seed=1))["reward"].mean() + 0.5
    assert model.statistics["expert_reward"] > model.statistics["agent_reward"]


def test_red_is_near_one_for_the_expert_and_falls_elsewhere() -> None:
    model = made(RED, expert_updates=600, hidden_size_list=[32])
    model.load_expert_data(samples())
    assert np.median(model.estimate(samples())["reward"]) == pytest.approx(0.9, abs=0.02)
    far = samples()
    far.columns["obs"] += 4
    assert model.estimate(far)["reward"].mean() < 0.5
    fixed = made(RED, expert_updates=1, sigma=1e-6)
    fixed.load_expert_data(samples())
    assert np.allclose(fixed.estimate(far)["reward"], 1, atol=1e-3)


def ranked(count: int = 12, steps: int = 20) -> Batch:
    """Episodes whose return is the sum of the first number of their observations."""
    data = samples(count * steps)
    quality = np.linspace(-2, 2, count).repeat(steps).astype(np.float32)
    data["obs"][:, 0] = quality + data["obs"][:, 0] / 4
    data["reward"][:] = data["obs"][:, 0]
    data["done"][steps - 1 :: steps] = 1
    return data


@pytest.mark.parametrize("by", ["return", "data_set"])
def test_a_ranking_gives_the_reward(by: str) -> None:
    model = made(
        TREX, expert_updates=150, learning_rate=1e-2, hidden_size_list=[32], batch_size=16
    )  # fmt: skip
    data = ranked()
    if by == "return":
        model.load_expert_data(data)
    else:
        data["reward"][:] = 0
        model.load_ranked_data([data[start : start + 60] for start in range(0, 240, 60)])
    found = model.estimate(data)["reward"]
    assert ((found > 0) & (found < 1)).all()
    assert (np.diff(found.reshape(4, -1).mean(1)) > 0.05).all()


@pytest.mark.parametrize("equal", ["return", "ranks"])
def test_episodes_of_one_quality_are_refused(equal: str) -> None:
    data = ranked()
    data["reward"][:] = 0
    model = made(TREX)
    with pytest.raises(UsageError, match="different quality"):
        model.load_expert_data(data) if equal == "return" else model.load_ranked_data([data])


# ---- bad data


def columns(**changed: Any) -> dict[str, Any]:
    end = np.arange(20) % 5 == 4
    rng = np.random.default_rng(0)
    found = {
        "obs": rng.normal(size=(20, 3)).astype(np.float32), "action": np.zeros(20, np.int64),
        "reward": np.ones(20, np.float32), "terminated": end, "truncated": np.zeros(20, bool),
    }  # fmt: skip
    return {**found, **changed}


REWARD = np.ones(20, np.float32)
REWARD[12] = np.nan
FILES: dict[str, tuple[dict[str, Any], type[DicoreError], str]] = {
    "nan": ({"reward": REWARD}, NonFiniteError, "episode 2, reward: nan in step 2"),
    "observations": ({"obs": np.zeros((20, 4), np.float32)}, SchemaError, "episode 0, obs: .*4"),
    "actions": ({"action": np.full(20, 5)}, ActionError, "episode 0, action: action 5"),
    "no_steps": (
        {k: each[:0] for k, each in columns().items()}, DicoreError, "expert.npz.*0 episodes"
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", [*FILES, "cut", "missing"])
def test_bad_expert_files_are_refused(case: str, tmp_path: Path) -> None:
    """One error, with file, episode and key."""
    path = tmp_path / "expert.npz"
    changed, error, message = FILES.get(case, ({}, DicoreError, "expert.npz"))
    if case != "missing":
        write_npz(path, columns(**changed))
    if case == "cut":
        path.write_bytes(path.read_bytes()[:-200])
    section = compile_section(GAILConfig, {"expert": {"type": "npz", "path": str(path)}})
    with pytest.raises(error, match=message):
        section.build(BuildContext(EnvSpec(BOX, ACTIONS)))


@pytest.mark.parametrize("cls", [GAIL, RED])
@pytest.mark.parametrize("bad", ["none", "no_action", "nan"])
def test_bad_expert_samples_are_refused(cls: type[Any], bad: str) -> None:
    data = samples()
    if bad == "nan":
        data["obs"][17, 1] = np.nan
    elif bad == "no_action":
        del data.columns["action"]
    data = data[:0] if bad == "none" else data
    error = {"none": UsageError, "no_action": SchemaError, "nan": NonFiniteError}[bad]
    with pytest.raises(error, match={"nan": "sample 17, obs"}.get(bad, "expert samples")):
        made(cls).load_expert_data(data)


def test_without_an_expert_it_says_so() -> None:
    model = made(GAIL)
    with pytest.raises(UsageError, match="no expert data"):
        _ = model.collect_data(samples()), model.train()


def test_rewards_per_agent_are_refused() -> None:
    data = samples()
    data.columns["reward"] = np.zeros((200, 2), np.float32)
    for use in (made(GAIL).estimate, RewardNorm().collect_data):
        with pytest.raises(UsageError, match=r"one reward per step.*\[2\]"):
            use(data)
