"""Replacing columns of stored samples, beside a list of dicts; the newest sequences of a batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dicore.data import Batch
from dicore.errors import SchemaError, UsageError
from dicore.run.random import seed_everything
from dicore.testing.buffer import numbered_rows
from dicore_plugins.buffers import (
    AdvancedReplayBuffer,
    DeviceStorage,
    ElasticReplayBuffer,
    EpisodeReplayBuffer,
    NaiveReplayBuffer,
    SequenceReplayBuffer,
    SupportsRewrite,
    storage_of,
)

RINGS: tuple[Any, ...] = (NaiveReplayBuffer, AdvancedReplayBuffer, ElasticReplayBuffer)


def stored(buffer: Any, key: str) -> dict[int, float]:
    """Returns a column of what is stored, by the number of the sample."""
    drawn = buffer.sample_batch(400, replace=True)
    return dict(zip(drawn["action"].tolist(), np.asarray(drawn[key]).tolist(), strict=True))


@pytest.mark.parametrize("kind", RINGS)
def test_rings_replace_the_samples_of_ids(kind: Any) -> None:
    seed_everything(0)
    buffer: Any = kind({"replay_buffer_size": 6})
    assert isinstance(kind({}), SupportsRewrite)
    ids = [*buffer.push(numbered_rows(4)), *buffer.push(numbered_rows(5, 4))]
    kept = {number: number / 2 for number in range(3, 9)}
    chosen, values = [ids[1], ids[4], ids[8], ids[4]], np.array([-1.0, -2.0, -3.0, -4.0])
    assert buffer.write(chosen, {"reward": values}) == 2  # one is gone, one is there twice
    assert stored(buffer, "reward") == {**kept, 4: -4.0, 8: -3.0}
    assert buffer.write(torch.tensor(ids[5:6]), {"reward": torch.tensor([9.0])}) == 1
    assert buffer.write([], {"reward": np.zeros(0, np.float32)}) == 0
    assert stored(buffer, "reward") == {**kept, 4: -4.0, 5: 9.0, 8: -3.0}
    assert buffer.check_valid() == (True, "")


@pytest.mark.parametrize("kind", RINGS)
def test_batches_that_are_drawn_together_have_what_was_written_since(kind: Any) -> None:
    buffer: Any = kind({"replay_buffer_size": 8})
    ids, rewards = buffer.push(numbered_rows(8)), []
    for number, batch in enumerate(buffer.sample_batches(3, 4), 1):
        rewards.append({*batch["reward"].tolist()})
        buffer.write(ids, {"reward": np.full(8, -number, np.float32)})
    assert rewards[1:] == [{-1.0}, {-2.0}]


@pytest.mark.parametrize("storage", ["mmap", "device"])
def test_other_storages_are_written_too(storage: str, tmp_path: Any) -> None:
    made = DeviceStorage("cpu") if storage == "device" else storage_of("mmap", folder=tmp_path)
    buffer: Any = NaiveReplayBuffer({"replay_buffer_size": 4}, storage=made)
    ids = buffer.push(numbered_rows(4))
    buffer.write([ids[2]], {"obs": np.full((1, 4), 7.0), "reward": np.array([5.0])})
    drawn = buffer.sample_batch(50, replace=True)
    changed = np.asarray(drawn["action"]) == 2
    assert (np.asarray(drawn["obs"])[changed] == 7).all()
    assert (np.asarray(drawn["obs"])[~changed] < 4).all()
    assert stored(buffer, "reward")[2] == 5
    buffer.close()


def test_nested_columns_are_replaced_alone() -> None:
    buffer: Any = NaiveReplayBuffer({"replay_buffer_size": 4})
    obs = {"a": np.zeros((3, 2), np.float32), "b": np.arange(3)}
    ids = buffer.push(Batch({"obs": obs, "action": np.arange(3)}))
    buffer.write([ids[1]], {"obs": {"a": np.ones((1, 2), np.float32)}})
    found = buffer.samples()
    assert found["obs"]["a"][:, 0].tolist() == [0, 1, 0]
    assert found["obs"]["b"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("columns", "error", "word"),
    [
        ({"prize": np.zeros(1)}, SchemaError, "prize"),
        ({"reward": np.zeros((1, 2))}, SchemaError, "reward"),
        ({"reward": np.zeros(2)}, SchemaError, "reward"),
        ({"action": np.zeros(1)}, SchemaError, "action"),
        ({"reward": np.array([1e300])}, SchemaError, "float32"),
    ],
)
def test_what_does_not_fit_changes_nothing(columns: Any, error: Any, word: str) -> None:
    buffer: Any = NaiveReplayBuffer({"replay_buffer_size": 4})
    ids = buffer.push(numbered_rows(3))
    with pytest.raises(error, match=word):
        buffer.write([ids[0]], {"reward": np.ones(1), **columns})
    with pytest.raises(UsageError, match="never pushed"):
        buffer.write([99], {"reward": np.ones(1)})
    assert stored(buffer, "reward") == {0: 0.0, 1: 0.5, 2: 1.0}


def test_buffers_of_whole_episodes_do_not_support_it() -> None:
    assert not isinstance(EpisodeReplayBuffer({"replay_buffer_size": 4}), SupportsRewrite)


def steps(lengths: tuple[int, ...], envs: int = 1, start: int = 0) -> Batch:
    """Returns the numbered steps of episodes, of all environments in turn."""
    each = sum(lengths)
    number = start + np.arange(each * envs)
    end = np.isin(np.arange(each), np.cumsum(lengths) - 1).repeat(envs)
    return Batch(
        {
            "obs": number.astype(np.float32)[:, None],
            "prev_state": np.zeros((each * envs, 2), np.float32),
            "reward": np.zeros(each * envs, np.float32),
            "end": end,
            "env_id": np.tile(np.arange(envs), each),
        }
    )


def sequences(**options: Any) -> Any:
    seed_everything(0)
    given = {"replay_buffer_size": 40, "unroll_len": 4, "stride": 2, "state_keys": ("prev_state",)}
    return SequenceReplayBuffer({**given, **options})


def test_the_first_steps_of_sequences_are_replaced() -> None:
    buffer = sequences(state_every=2)
    buffer.push(steps((7, 3), envs=2))
    drawn = buffer.sample_batch(6)
    rewards = np.arange(18, dtype=np.float32).reshape(6, 3) + 1
    states = np.arange(36, dtype=np.float32).reshape(6, 3, 2) + 1
    wanted, wanted_state = dict[float, float](), dict[float, list[float]]()
    for row in range(6):
        for step in range(3):
            if drawn["valid"][row, step]:
                number = float(drawn["obs"][row, step, 0])
                wanted[number] = float(rewards[row, step])
                wanted_state[number] = states[row, step].tolist()
    count = buffer.write(drawn["replay_unique_id"], {"reward": rewards, "prev_state": states})
    assert count == len(set(drawn["replay_unique_id"].tolist()))
    again = buffer.sample_batch(200, replace=True)
    for row, step in np.ndindex(200, 4):
        number = float(again["obs"][row, step, 0])
        assert again["reward"][row, step] == wanted.get(number, 0.0)
        if step % 2 == 0 and again["valid"][row, step]:
            found = again["prev_state"][row, step // 2].tolist()
            assert found == wanted_state.get(number, [0.0, 0.0])
    assert buffer.check_valid() == (True, "")
    copy = sequences(state_every=2)
    copy.load_state_dict(buffer.state_dict())
    assert (copy.sample_batch(5)["reward"] == buffer.sample_batch(5)["reward"]).all()


def test_sequences_that_are_gone_are_skipped() -> None:
    buffer = sequences(replay_buffer_size=8)
    ids = buffer.push(steps((6,)))
    buffer.push(steps((6,), start=6))
    assert buffer.write([ids[0], ids[3]], {"reward": np.ones((2, 4), np.float32)}) == 0
    with pytest.raises(SchemaError, match="reward"):
        buffer.write([ids[0]], {"reward": np.ones((1, 5), np.float32)})
    single = sequences(unroll_len=1, stride=1, state_keys=())
    ids = single.push(steps((3,)))
    assert single.write([ids[2]], {"reward": np.ones(1, np.float32)}) == 1
    assert single.sample_batch(30, replace=True)["reward"].sum() > 0


@pytest.mark.parametrize("envs", [1, 3])
def test_a_batch_ends_with_the_newest_sequences(envs: int) -> None:
    buffer = sequences(newest=3, state_keys=(), stride=1, replay_buffer_size=200)
    for start in range(0, 40 * envs, 10 * envs):
        buffer.push(steps((6, 4), envs, start))
        every = [float(each) for each in buffer._ring.column("obs")[buffer._by_age(), 0]]
        drawn = buffer.sample_batch(5, replace=True)
        assert drawn["obs"][2:, 0, 0].tolist() == every[-3:]
    assert len({*buffer.sample_batch(150, replace=True)["obs"][:, 0, 0].tolist()}) > 12
    rest = buffer.sample_batch(4, sample_range=slice(4))
    assert rest["obs"][:, 0, 0].max() <= every[3]
    assert (buffer.sample_batch(2)["obs"][:, 0, 0] == every[-2:]).all()
