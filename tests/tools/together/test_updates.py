"""Joint updates do what the learn mode of each seed does alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("dicore_plugins")
pytest.importorskip("dicore_contrib_envs")

import torch

from dicore.config import bind
from dicore.data import Batch
from dicore.run.env_factory import spec_of
from dicore.run.launch import TrainRequest, compile_request
from dicore.run.random import seeded
from dicore_plugins.pipelines.parts import Parts
from dicore_tools.together.learning import fits
from dicore_tools.together.supported import joint_learner
from tests.soak import some

SEEDS, SIZE, UPDATES = 3, 24, 4
TINY = {
    "dqn": ["policy.model.encoder_hidden_size_list=[16,8]"],
    "vac": ["policy.model.encoder_hidden_size_list=[16,8]"],
    "qac": [
        "policy.model.actor_hidden_size_list=[16,8]",
        "policy.model.critic_hidden_size_list=[8,16]",
        "policy.collect.n_sample=8",
    ],
}


def policies(env: str, policy: str, options: list[str], count: int = SEEDS) -> list[Any]:
    """Returns the policy of each seed."""
    network = {"a2c": "vac", "ppo": "vac"}.get(policy, "qac" if env == "pendulum" else "dqn")
    overrides = [*TINY[network], *(f"policy.{option}" for option in options)]
    found = []
    for seed in range(count):
        compiled = compile_request(
            TrainRequest(env=env, policy=policy, preset=False, seed=seed, overrides=overrides)
        )
        compiled = bind(compiled, spec_of(compiled.env, seed))
        with seeded(seed):
            found.append(Parts(compiled.cfg).policy)
    return found


def normal(rng: np.random.Generator, *shape: int) -> Any:
    return rng.standard_normal(shape, np.float32)


def replayed(rng: np.random.Generator, env: str) -> Batch:
    """Returns samples of a replay buffer."""
    columns = {
        "obs": normal(rng, SIZE, 4 if env == "cartpole" else 3),
        "next_obs": normal(rng, SIZE, 4 if env == "cartpole" else 3),
        "reward": normal(rng, SIZE),
        "done": (rng.random(SIZE) < 0.2).astype(np.float32),
        "action": rng.integers(0, 2, SIZE)
        if env == "cartpole"
        else rng.uniform(-2, 2, (SIZE, 1)).astype(np.float32),
    }
    return Batch(columns, SIZE)


def collected(rng: np.random.Generator, env: str) -> Batch:
    """Returns samples of a collect, as `get_train_sample` makes them."""
    columns = {
        "obs": 3 * normal(rng, SIZE, 4 if env == "cartpole" else 3),
        "log_prob": -0.8 + 0.2 * normal(rng, SIZE),
        "value": normal(rng, SIZE),
        "advantage": normal(rng, SIZE),
        "target": 2 * normal(rng, SIZE),
    }
    if env == "cartpole":
        columns["action"] = rng.integers(0, 2, SIZE)
    else:
        columns["action"] = columns["raw_action"] = normal(rng, SIZE, 1)
    return Batch(columns, SIZE)


def assert_near(found: Any, expected: Any, where: str = "") -> None:
    """Compares trees of states and results within the error of float32."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key in expected:
            assert_near(found[key], expected[key], f"{where}.{key}")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for index, pair in enumerate(zip(found, expected, strict=True)):
            assert_near(*pair, f"{where}[{index}]")
    elif expected is None or isinstance(expected, str | bool):
        assert found == expected, where
    else:
        np.testing.assert_allclose(
            np.asarray(found, np.float64),
            np.asarray(expected, np.float64),
            rtol=1e-4,
            atol=2e-5,
            err_msg=where,
        )


CASES = [
    ("cartpole", "dqn", []),
    ("cartpole", "dqn", ["learn.double=false", "learn.criterion=mse", "learn.max_grad_norm=0.5"]),
    ("cartpole", "dqn", ["learn.target_theta=0.1", "learn.learning_rate_end=0.1",
                         "learn.learning_rate_decay=3"]),
    ("cartpole", "dqn", ["learn.target_update_freq=2", "model.layer_norm=true", "nstep=3"]),
    ("cartpole", "dqn", ["model.layer_norm=last", "model.activation=tanh",
                         "learn.ignore_done=true"]),
    ("cartpole", "ddqn", ["learn.huber_delta=0.7"]),
    ("cartpole", "dueling", ["model.head_hidden_size_list=[6]", "learn.optimizer=sgd"]),
    ("cartpole", "ppo", ["learn.batch_size=10", "learn.epoch_per_collect=2"]),
    ("cartpole", "ppo", ["learn.batch_size=8", "learn.entropy_weight=0.01",
                         "model.activation=relu", "model.share_encoder=true"]),
    ("cartpole", "ppo", ["learn.target_kl=0.036", "learn.learning_rate=0.01",
                         "learn.epoch_per_collect=4"]),
    ("pendulum", "ppo", ["model.obs_norm=true", "model.value_norm=true", "learn.value_clip=0.3",
                         "learn.dual_clip=1.2", "learn.entropy_weight=0.02"]),
    ("cartpole", "a2c", ["learn.adv_norm=true", "model.layer_norm=true"]),
    ("pendulum", "a2c", ["model.actor_head_hidden_size_list=[5]", "learn.batch_size=8"]),
    ("pendulum", "sac", []),
    ("pendulum", "sac", ["learn.auto_alpha=false", "learn.alpha=0.3", "model.obs_norm=true",
                         "learn.max_grad_norm=0.5"]),
    ("pendulum", "sac", ["model.num_critics=3", "model.activation=tanh",
                         "learn.target_entropy=-0.5"]),
    ("pendulum", "td3", ["learn.learning_rate_end=0.2", "learn.learning_rate_decay=3"]),
    ("pendulum", "td3", []),
    ("pendulum", "td3", ["learn.actor_update_freq=1", "learn.target_noise_clip=0.1"]),
    ("pendulum", "ddpg", ["learn.ignore_done=true"]),
]  # fmt: skip


@pytest.mark.parametrize(("env", "policy", "options"), some(CASES, 10, "together"))
def test_updates_are_those_of_each_seed_alone(env: str, policy: str, options: list[str]) -> None:
    alone, joined = policies(env, policy, options), policies(env, policy, options)
    joint = joint_learner([each.learn_mode for each in joined])
    rng, make = np.random.default_rng(0), collected if policy in ("a2c", "ppo") else replayed
    for _ in range(UPDATES):
        batches = [make(rng, env) for _ in alone]
        expected = [
            each.learn_mode.forward(batch) for each, batch in zip(alone, batches, strict=True)
        ]
        found = joint.update(batches, [{}] * SEEDS)
        assert_near(found, expected)
    for one, other in zip(joined, alone, strict=True):
        assert_near(one.learn_mode.state_dict(), other.learn_mode.state_dict())


def test_a_seed_whose_policy_moved_too_far_stops_and_the_others_go_on() -> None:
    """The case above stops some seeds before others: else it would say nothing of them."""
    options = ["target_kl=0.036", "learning_rate=0.01", "epoch_per_collect=4"]
    every = policies("cartpole", "ppo", [f"learn.{option}" for option in options])
    joint = joint_learner([each.learn_mode for each in every])
    rng = np.random.default_rng(0)
    counts = {
        len(results)
        for _ in range(UPDATES)
        for results in joint.update([collected(rng, "cartpole") for _ in every], [{}] * SEEDS)
    }
    assert len(counts) > 1


@pytest.mark.parametrize("policy", ["dqn", "sac"])
def test_weights_and_value_gammas_of_samples_count(policy: str) -> None:
    env = "cartpole" if policy == "dqn" else "pendulum"
    options = ["priority=true", "priority_IS_weight=true", "nstep=2"]
    alone, joined = policies(env, policy, options), policies(env, policy, options)
    joint = joint_learner([each.learn_mode for each in joined])
    rng = np.random.default_rng(0)
    batches = []
    for _ in alone:
        columns = replayed(rng, env).columns
        more = {"IS": rng.random(SIZE, np.float32), "value_gamma": rng.random(SIZE, np.float32)}
        batches.append(Batch({**columns, **more}, SIZE))
    expected = [each.learn_mode.forward(batch) for each, batch in zip(alone, batches, strict=True)]
    assert_near(joint.update(batches, [{}] * SEEDS), expected)
    for one, other in zip(joined, alone, strict=True):
        assert_near(one.learn_mode.state_dict(), other.learn_mode.state_dict())


def test_actions_that_a_mask_forbids_are_not_chosen() -> None:
    alone, joined = (policies("cartpole", "ppo", []) for _ in range(2))
    joint = joint_learner([each.learn_mode for each in joined])
    rng = np.random.default_rng(0)
    batches = []
    for each in (*alone, *joined):
        encode = each.get_attribute("model").encode
        encode.vector = lambda obs: obs["values"]
    for _ in alone:
        columns = collected(rng, "cartpole").columns
        mask = np.ones((SIZE, 2), np.int8)
        mask[np.arange(0, SIZE, 2), 1 - columns["action"][::2]] = 0
        obs = {"values": columns["obs"], "action_mask": mask}
        batches.append(Batch({**columns, "obs": obs}, SIZE))
    expected = [each.learn_mode.forward(batch) for each, batch in zip(alone, batches, strict=True)]
    assert_near(joint.update(batches, [{}] * SEEDS), expected)


def test_an_update_with_a_loss_that_is_not_finite_is_skipped_in_its_seed_alone() -> None:
    every = policies("cartpole", "dqn", [])
    joint = joint_learner([each.learn_mode for each in every])
    rng = np.random.default_rng(0)
    before = [each.get_attribute("flat").data.clone() for each in every]
    batches = [replayed(rng, "cartpole") for _ in every]
    batches[1]["reward"][3] = np.nan
    joint.update(batches, [{}] * SEEDS)
    kept = [
        bool(torch.equal(each.get_attribute("flat").data, old))
        for each, old in zip(every, before, strict=True)
    ]
    assert kept == [False, True, False]
    assert [each.learn_mode.get_attribute("skipped_updates") for each in every] == [0, 1, 0]


@pytest.mark.parametrize("env", ["cartpole", "pendulum"])
@pytest.mark.parametrize("equal", [True, False])
def test_the_annealed_settings_of_a_collect_are_obeyed(env: str, *, equal: bool) -> None:
    """Seeds that were trained for unequal times have settings of their own."""
    options = ["learn.epoch_per_collect=2", "model.value_norm=true"]
    alone, joined = (policies(env, "ppo", options) for _ in range(2))
    joint = joint_learner([each.learn_mode for each in joined])
    rng = np.random.default_rng(0)
    batches = [collected(rng, env) for _ in alone]
    settings = [
        {"learning_rate": 0.01 * by, "entropy_weight": 0.05 * by, "clip_ratio": 0.05 * by}
        for by in ([1] * SEEDS if equal else range(1, SEEDS + 1))
    ]
    expected = [
        each.learn_mode.forward(batch, **own)
        for each, batch, own in zip(alone, batches, settings, strict=True)
    ]
    assert_near(joint.update(batches, settings), expected)
    for one, other in zip(joined, alone, strict=True):
        assert_near(one.learn_mode.state_dict(), other.learn_mode.state_dict())


def test_batches_of_other_sizes_do_not_fit() -> None:
    one, two = (Batch({"obs": np.zeros(size)}, size) for size in (3, 4))
    assert fits([one, one])
    assert not fits([one, two])
    assert not fits([one, Batch({"reward": np.zeros(3)}, 3)])
    assert not fits([one, [{"obs": 0.0}]])
