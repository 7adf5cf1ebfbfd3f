"""Samples of data sets that are sequences of steps, and whole episodes for policies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from dicore.data import Batch
from dicore.errors import ConfigError, ReplayCapacityError, SchemaError, UsageError
from dicore_plugins.buffers import (
    EpisodeReplayBuffer,
    FileReplayBuffer,
    NaiveReplayBuffer,
    SequenceReplayBuffer,
)
from dicore_plugins.datasets import CollectedDataset, NpzDataset, fill_buffer, write_npz
from dicore_plugins.functional.samples import nstep_samples
from tests.plugins.datasets.recordings import EPISODES, collected, write
from tests.plugins.policies.test_actor_critic import policy_of


def opened(folder: Path, **options: Any) -> NpzDataset:
    return NpzDataset({"path": write("npz_next", folder, EPISODES), **options})


def windows(length: int, stride: int) -> list[list[float]]:
    """Returns the first observations of each sequence, by loops over the episodes."""
    return [
        [*each.obs[start : min(start + length, len(each.action)), 0]]
        for each in EPISODES
        for start in range(0, len(each.action), stride)
        if start == 0 or start - stride + length < len(each.action)
    ]


@pytest.mark.parametrize(
    ("length", "stride"), [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3), (5, 4), (9, 1), (9, 9)]
)
def test_sequences_are_within_one_episode(length: int, stride: int, tmp_path: Path) -> None:
    data = opened(tmp_path, unroll_len=length, stride=stride)
    batch = data.take(np.arange(len(data)))
    pairs = zip(batch["obs"][..., 0], batch["valid"], strict=True)
    assert [row[valid].tolist() for row, valid in pairs] == windows(length, stride)
    assert batch["next_obs"].shape == (len(data), length, 2)
    padded = ~batch["valid"][:, 1:]  # the last step again
    for column in batch.columns.values():
        if column.dtype != np.bool_:
            np.testing.assert_array_equal(column[:, 1:][padded], column[:, :-1][padded])
    covered = np.unique(batch["obs"][..., 0])
    assert len(covered) == sum(len(each.action) for each in EPISODES)


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_recycled_batches_of_sequences(batch_size: int, tmp_path: Path) -> None:
    data = opened(tmp_path, unroll_len=3, nstep=2)
    index = np.random.default_rng(0).permutation(len(data))
    for _ in range(3):
        starts = range(0, len(index), batch_size)
        for start, batch in zip(starts, data.take_batches(index, batch_size), strict=True):
            wanted = data.take(index[start : start + batch_size])
            assert batch.columns.keys() == wanted.columns.keys()
            for key, column in batch.to_torch().items():
                np.testing.assert_array_equal(column, wanted[key])
    assert len(data.take([])) == 0


def test_columns_that_are_computed(tmp_path: Path) -> None:
    data = opened(tmp_path, derived=("timestep", "return_to_go"))
    batch = data.take(np.arange(len(data)))
    lengths = [len(each.action) for each in EPISODES]
    assert batch["timestep"].tolist() == [step for count in lengths for step in range(count)]
    sums = [each.reward[step:].sum() for each in EPISODES for step in range(len(each.action))]
    np.testing.assert_allclose(batch["return_to_go"], sums, rtol=1e-5)
    np.testing.assert_allclose(data.returns, [each.reward.sum() for each in EPISODES], rtol=1e-6)


def test_discounted_returns_next_actions_and_steps_to_go(tmp_path: Path) -> None:
    derived = ("discounted_return", "next_action", "steps_to_go")
    data = opened(tmp_path, derived=derived, discount_factor=0.9, reward_scale=0.5)
    batch = data.take(np.arange(len(data)))
    left = [np.arange(len(each.action))[::-1] for each in EPISODES]
    np.testing.assert_array_equal(batch["steps_to_go"], np.concatenate(left))
    after = [0.0 if each.terminated else min(each.reward.mean(), 0.0) / 0.1 for each in EPISODES]
    wanted = [
        sum(0.5 * 0.9**n * reward for n, reward in enumerate([*each.reward[step:], end]))
        for each, end in zip(EPISODES, after, strict=True)
        for step in range(len(each.action))
    ]
    np.testing.assert_allclose(batch["discounted_return"], wanted, rtol=1e-4, atol=1e-5)
    later = [[*each.action[1:], np.full_like(each.action[0], np.nan, float)] for each in EPISODES]
    found = np.concatenate([np.array(each, np.float32) for each in later])
    np.testing.assert_array_equal(batch["next_action"], found)


def test_costs_go_on_after_a_cut(tmp_path: Path) -> None:
    """Three episodes of two steps with gamma = 0.5: cut with -1 each, ended, cut with 1 each."""
    rewards = np.array([-1.0, -1.0, -1.0, -1.0, 1.0, 1.0])
    ended, cut = np.array([0, 0, 0, 1, 0, 0], bool), np.array([0, 1, 0, 0, 0, 1], bool)
    obs, action = np.zeros((6, 2), np.float32), np.zeros((6, 1), np.float32)
    columns = {"obs": obs, "action": action, "reward": rewards, "next_obs": obs}
    write_npz(tmp_path / "x.npz", {**columns, "terminated": ended, "truncated": cut})
    given = {"path": str(tmp_path / "x.npz"), "derived": ("discounted_return",)}
    for gamma, wanted in (
        (0.5, [-2.0, -2.0, -1.5, -1.0, 1.5, 1.0]),
        (1.0, [-2.0, -1.0, -2.0, -1.0, 2.0, 1.0]),
    ):
        data = NpzDataset({**given, "discount_factor": gamma})
        assert data.take(np.arange(6))["discounted_return"].tolist() == wanted


def test_statistics_of_a_column(tmp_path: Path) -> None:
    data = opened(tmp_path, unroll_len=4)
    obs = np.concatenate([each.obs[:-1] for each in EPISODES]).astype(np.float64)
    mean, deviation = data.statistics()
    np.testing.assert_allclose(mean, obs.mean(0))
    np.testing.assert_allclose(deviation, obs.std(0))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"unroll_len": 2, "stride": 3}, "stride: must be <= unroll_len"),
        (
            {"derived": ("return",)},
            "'return': expected return_to_go or timestep or steps_to_go",
        ),
    ],
)
def test_options_that_do_not_fit(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        NpzDataset({"path": "x.npz", **options})


def test_steps_of_unknown_episodes_make_no_sequences(tmp_path: Path) -> None:
    buffer = NaiveReplayBuffer({"replay_buffer_size": 100})
    samples = collected(EPISODES)
    samples.columns.pop("end")
    buffer.push(samples)
    buffer.save_data(tmp_path / "data")
    with pytest.raises(SchemaError, match="unroll_len is 2 and derived is timestep"):
        CollectedDataset(
            {"path": str(tmp_path / "data"), "unroll_len": 2, "derived": ("timestep",)}
        )


# ---- buffers


def test_a_sequence_buffer_knows_where_episodes_end(tmp_path: Path) -> None:
    """Also where a time limit or the end of the recording ended one: `done` is false there."""
    buffer = SequenceReplayBuffer({"unroll_len": 3, "stride": 1, "replay_buffer_size": 100})
    assert buffer.load_dataset(opened(tmp_path)) == range(19)
    assert buffer.count() == len(windows(3, 1))
    batch = buffer.sample_batch(100, replace=True)
    found = {tuple(r[v]) for r, v in zip(batch["obs"][..., 0], batch["valid"], strict=True)}
    assert found == {*map(tuple, windows(3, 1))}


def test_an_episode_buffer_gets_whole_episodes(tmp_path: Path) -> None:
    buffer = EpisodeReplayBuffer({"replay_buffer_size": 5})
    buffer.load_dataset(opened(tmp_path))
    assert buffer.episode_len == [len(each.action) for each in EPISODES]
    with pytest.raises(ReplayCapacityError, match="5 episodes, the buffer's capacity is 4"):
        EpisodeReplayBuffer({"replay_buffer_size": 4}).load_dataset(opened(tmp_path))


def test_sequences_are_samples_of_other_buffers(tmp_path: Path) -> None:
    data = opened(tmp_path, unroll_len=3)
    buffer = NaiveReplayBuffer({"replay_buffer_size": 100})
    buffer.load_dataset(data)
    assert buffer.sample_batch(4)["obs"].shape == (4, 3, 2)
    files = FileReplayBuffer({"folder": str(tmp_path / "bodies")})
    assert len(files.load_dataset(data)) == len(data)
    files.close()
    with pytest.raises(UsageError, match="this buffer makes them from steps"):
        SequenceReplayBuffer({"unroll_len": 3}).load_dataset(data)

    class Plain:
        def __len__(self) -> int:
            return 1

    with pytest.raises(UsageError, match="Plain does not know the ends"):
        fill_buffer(SequenceReplayBuffer({}), Plain())


def test_a_policy_makes_its_samples_of_recorded_episodes(tmp_path: Path) -> None:
    """n-step samples of the collector are those of the data set."""
    made = NaiveReplayBuffer({"replay_buffer_size": 100})
    made.load_dataset(opened(tmp_path), lambda block, tail: nstep_samples(block, 3, 0.9, tail))
    data = opened(tmp_path, nstep=3, discount_factor=0.9)
    wanted = data.take(np.arange(len(data)))
    found = made.state_dict()["columns"]
    assert found.keys() == wanted.columns.keys()
    for key, column in wanted.items():
        np.testing.assert_array_equal(found[key], column, key)


@pytest.mark.parametrize("kind", ["advanced", "sequence"])
def test_r2d2_learns_from_recorded_episodes(kind: str, tmp_path: Path) -> None:
    """As its demonstrations (R2D3): sequences of the policy's form, from the first state."""
    options = ["policy.nstep=2", "policy.collect.unroll_len=2", "policy.collect.burn_in=1"]
    if kind == "sequence":
        other = {"type": "sequence", "state_keys": ["prev_state"], "burn_in": 1, "unroll_len": 4,
                 "stride": 2, "replay_buffer_size": 100}  # fmt: skip
        options.append(f"policy.other.replay_buffer={json.dumps(other)}")
    policy = policy_of("r2d2", spaces.Discrete(3), *options)
    section = policy._cfg.other.replay_buffer
    store = section.build(None)
    store.load_dataset(opened(tmp_path), policy.collect_mode.get_train_sample)
    assert store.count() > 0
    batch = store.sample_batch(2)
    assert batch["obs"].shape == (2, 5, 2)
    assert not batch["prev_state"].any()
    result = policy.learn_mode.forward(Batch(dict(batch.columns), 2))
    assert np.isfinite(float(result["total_loss"]))
