"""Dreamer: sequences as steps of the environment, learning, spaces that it does not take."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from dicore.config import compile_config
from dicore.data import Batch, EnvBatch
from dicore.errors import ConfigError, UsageError
from dicore.run.launch import launch
from dicore.run.random import seed_everything
from dicore_plugins.buffers import SequenceReplayBuffer
from dicore_plugins.policies import create_policy
from dicore_worlds import DreamerPolicy

VECTOR = spaces.Box(-1, 1, (4,), np.float32)
SMALL: dict[str, Any] = {"deter": 8, "units": 8, "groups": 3, "classes": 4, "cnn_depth": 2}
ACTIONS = {"discrete": spaces.Discrete(3, start=2), "box": spaces.Box(-2, 3, (2,), np.float32)}


def made(action: Any, observation: Any = VECTOR, gamma: float = 0.9, **learn: Any) -> DreamerPolicy:
    seed_everything(0)
    policy = create_policy(
        {"type": "dreamer", "model": SMALL, "discount_factor": gamma, "learn": learn},
        observation_space=observation,
        action_space=action,
    )
    assert isinstance(policy, DreamerPolicy)
    return policy


def sequences(policy: DreamerPolicy, action: Any, lengths: tuple[int, ...]) -> Batch:
    """Returns sequences of 6 steps, of which the last ones of some are no steps."""
    rng, count, steps = np.random.default_rng(0), len(lengths), 6
    action.seed(0)
    shape = (count, steps)
    obs = rng.uniform(-1, 1, (count, steps + 1, 4)).astype(np.float32)
    taken = np.stack([[action.sample() for _ in range(steps)] for _ in range(count)])
    size = policy.get_attribute("model").state_size
    return Batch(
        {
            "obs": obs[:, :-1],
            "next_obs": obs[:, 1:],
            "action": taken,
            "reward": rng.standard_normal(shape).astype(np.float32),
            "done": np.zeros(shape, np.float32),
            "valid": np.arange(steps) < np.array(lengths)[:, None],
            "prev_state": np.zeros((count, size), np.float32),
        },
        count,
    )


def updated(policy: DreamerPolicy, batch: Batch) -> dict[str, Any]:
    """Runs one update; returns its results."""
    found = policy.learn_mode.forward(batch)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("kind", ACTIONS)
def test_what_follows_the_end_of_a_sequence_has_no_influence(kind: str) -> None:
    states = []
    for spoilt in (False, True):
        policy = made(ACTIONS[kind])
        batch = sequences(policy, ACTIONS[kind], (6, 4, 2))
        if spoilt:
            for key in ("obs", "next_obs", "reward", "done"):
                batch[key][2, 2 if key != "obs" else 3 :] = 77
        updated(policy, batch)
        states.append(policy.learn_mode.state_dict()["model"])
    for key, value in states[0].items():
        assert torch.equal(value, states[1][key]), key


def test_short_sequences_are_cut_to_the_longest() -> None:
    """A batch of sequences of at most 3 steps is learned from as one of 3 columns."""
    results = []
    for cut in (None, 3):
        policy = made(ACTIONS["discrete"])
        batch = sequences(policy, ACTIONS["discrete"], (3, 2))
        columns = batch.columns if cut is None else {
            key: value if key == "prev_state" else value[:, :cut] for key, value in batch.items()
        }  # fmt: skip
        results.append(updated(policy, Batch(columns, 2))["total_loss"])
    assert torch.equal(*results)


@pytest.mark.parametrize("kind", ACTIONS)
def test_the_world_model_learns_what_it_sees(kind: str) -> None:
    policy = made(ACTIONS[kind], learning_rate=1e-2, max_starts=4, horizon=2)
    batch = sequences(policy, ACTIONS[kind], (6, 6, 6))
    first = updated(policy, batch)
    for _ in range(25):
        last = updated(policy, batch)
    for key in ("obs_loss", "reward_loss", "going_loss"):
        assert last[key] < 0.8 * first[key], key


@pytest.mark.parametrize("ignored", [False, True])
def test_no_future_is_imagined_after_a_terminal_state(*, ignored: bool) -> None:
    policy = made(ACTIONS["discrete"], ignore_done=ignored)
    batch = sequences(policy, ACTIONS["discrete"], (6, 6))
    batch["done"][:, 3] = 1
    batch["valid"][:, 4:] = False
    seen: list[int] = []
    imagine = policy.get_attribute("model").imagine

    def counted(state: Any, *rest: Any) -> Any:
        seen.append(len(state.deter))
        return imagine(state, *rest)

    policy.get_attribute("model").imagine = counted
    updated(policy, batch)
    assert seen == [2 * (5 if ignored else 4)]  # the first observation, and those of 3 or 4 steps


def test_the_actor_prefers_what_pays_in_dreams() -> None:
    """A reward for one action, in every state: the actor comes to choose it."""
    action = ACTIONS["discrete"]
    learn = {"learning_rate": 1e-2, "behaviour_learning_rate": 1e-2, "horizon": 2, "max_starts": 48}
    policy = made(action, gamma=0.0, **learn)
    batch = sequences(policy, action, (6,) * 8)
    batch["reward"][...] = batch["action"] == 3
    first = updated(policy, batch)
    for _ in range(150):  # a few seconds: the reward must be learned first
        last = updated(policy, batch)
    assert abs(first["imagined_return"]) < 0.1
    assert last["imagined_return"] > 0.8
    obs = EnvBatch(np.arange(8), batch["obs"][:, 0])
    acted = EnvBatch.of(policy.eval_mode.forward(obs)).value["action"]
    assert (acted == 3).all()


def test_latent_states_go_to_the_buffer_with_the_first_step_of_each_sequence() -> None:
    policy = made(ACTIONS["discrete"])
    buffer = SequenceReplayBuffer(
        {"unroll_len": 3, "state_keys": ("prev_state",), "replay_buffer_size": 100}
    )
    rows = []
    policy.collect_mode.reset()
    for t in range(7):
        obs = np.full((2, 4), t, np.float32)
        output = EnvBatch.of(policy.collect_mode.forward(EnvBatch(np.arange(2), obs))).value
        rows.append(output["prev_state"])
        buffer.push(
            Batch(
                {
                    "obs": obs,
                    "next_obs": obs + 1,
                    "end": np.array([t == 6] * 2),
                    "env_id": np.arange(2),
                    "prev_state": output["prev_state"],
                },
                2,
            )
        )
    assert not rows[0].any()
    drawn = buffer.sample_batch(6)
    assert isinstance(drawn, Batch)
    for row in range(6):
        first = int(drawn["obs"][row, 0, 0])
        assert first in {0, 3, 6}
        assert any(np.array_equal(drawn["prev_state"][row], each) for each in rows[first])


def test_eval_forgets_the_sequence_after_reset() -> None:
    policy = made(ACTIONS["box"])
    obs = EnvBatch(np.arange(2), np.ones((2, 4), np.float32))
    one = EnvBatch.of(policy.eval_mode.forward(obs)).value["mean"]
    two = EnvBatch.of(policy.eval_mode.forward(obs)).value["mean"]
    assert not np.array_equal(one, two)
    policy.eval_mode.reset([1])
    three = EnvBatch.of(policy.eval_mode.forward(obs)).value["mean"]
    np.testing.assert_allclose(three[1], one[1], atol=1e-6)


@pytest.mark.parametrize(("side", "sees_images"), [(8, True), (7, False)])
def test_small_images_are_images_from_8_pixels_on(side: int, sees_images: bool) -> None:
    image = spaces.Box(0, 255, (side, side, 3), np.uint8)
    policy = made(ACTIONS["box"], image)
    assert policy.get_attribute("model").sees_images is sees_images
    obs = EnvBatch(np.arange(2), np.zeros((2, side, side, 3), np.uint8))
    assert EnvBatch.of(policy.eval_mode.forward(obs)).value["action"].shape == (2, 2)


def test_unknown_arguments_of_collect_are_refused() -> None:
    policy = made(ACTIONS["discrete"])
    obs = EnvBatch(np.arange(1), np.ones((1, 4), np.float32))
    with pytest.raises(UsageError, match="eps"):
        policy.collect_mode.forward(obs, eps=0.1)


def test_a_network_without_latent_states_is_refused() -> None:
    options = {"type": "dreamer", "model": {**SMALL, "obs_shape": 4, "action_shape": 3}}
    with pytest.raises(UsageError, match="DreamerNet"):
        DreamerPolicy(options, model=torch.nn.Linear(4, 3))


@pytest.mark.parametrize(
    ("observation", "action", "named"),
    [
        (VECTOR, spaces.MultiDiscrete([2, 2]), "one discrete action"),
        (VECTOR, spaces.Box(-np.inf, np.inf, (1,), np.float32), "bounded"),
        (VECTOR, spaces.Tuple((spaces.Discrete(2), spaces.Discrete(2))), "one discrete action"),
        (spaces.Dict(a=VECTOR), spaces.Discrete(2), "policy.model"),
        (spaces.Text(3), spaces.Discrete(2), "fixed size"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_spaces_that_do_not_fit_are_refused(observation: Any, action: Any, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        made(action, observation)


@pytest.mark.parametrize(
    ("option", "value", "place"),
    [
        ("policy.other.replay_buffer", {"type": "naive"}, "policy.other.replay_buffer"),
        ("policy.other.replay_buffer.state_keys", [], "policy.other.replay_buffer.state_keys"),
        ("policy.other.replay_buffer.burn_in", 2, "policy.other.replay_buffer"),
        ("policy.other.replay_buffer.padding", False, "padding: must be True, or the ends of"),
        ("policy.other.replay_buffer.padding", False, "never seen; set it to true, or leave it"),
        ("policy.other.replay_buffer.eta", 0.1, "eta: has no effect without priority"),
        ("policy.other.replay_buffer.newest", 999, "newest: must be <= learn.batch_size"),
        ("policy.other.replay_buffer.stride", 99, "stride: must be <= 16, or steps"),
        ("policy.nstep", 3, "policy.nstep"),
        ("policy.priority", True, "policy.priority"),
        ("policy.model.bins", 254, "policy.model.bins"),
    ],
    ids=str,
)
def test_options_that_do_not_fit_are_refused(
    option: str, value: Any, place: str, tmp_path: Path
) -> None:
    pytest.importorskip("dicore_contrib_envs")
    with pytest.raises(ConfigError, match=place.replace(".", r"\.")):
        launch(
            env="cartpole",
            policy="dreamer",
            exp_name=str(tmp_path / "run"),
            overrides=[f"{option}={json.dumps(value)}"],
        )
    assert not (tmp_path / "run").exists()


def test_the_presets_compile() -> None:
    pytest.importorskip("dicore_contrib_envs")
    for name in ("cartpole_dreamer", "pendulum_dreamer"):
        assert compile_config(preset=name).policy.type == "dreamer"


def test_single_numbers_are_seen_and_done() -> None:
    """Spaces of shape () are vectors of one number."""
    seen, done = spaces.Box(-1, 1, (), np.float32), spaces.Box(-2, 3, (), np.float32)
    policy = made(done, seen)
    policy.collect_mode.forward({0: np.float32(0.5)})
    shape = (2, 3)
    batch = Batch(
        {
            "obs": np.zeros(shape, np.float32),
            "next_obs": np.zeros(shape, np.float32),
            "action": np.ones(shape, np.float32),
            "reward": np.zeros(shape, np.float32),
            "done": np.zeros(shape, np.float32),
            "prev_state": np.zeros((2, policy.get_attribute("model").state_size), np.float32),
        },
        2,
    )
    assert np.isfinite(float(updated(policy, batch)["total_loss"]))
