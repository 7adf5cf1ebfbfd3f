"""What is in a batch."""

from typing import Any

import numpy as np
import pytest
from combined_replay.buffer import CombinedReplayBuffer

from dicore.data import Batch
from dicore.errors import ReplayUnderflowError


def filled(count: int, capacity: int = 8, **options: Any) -> CombinedReplayBuffer:
    rng = np.random.default_rng(0)
    buffer = CombinedReplayBuffer({"replay_buffer_size": capacity, **options}, rng=rng)
    for number in range(count):
        buffer.push(Batch({"number": np.array([number])}))
    return buffer


@pytest.mark.parametrize("count", [3, 8, 13])
def test_the_newest_sample_is_in_each_batch(count: int) -> None:
    buffer = filled(count)
    for _ in range(20):
        assert buffer.sample_batch(2)["number"][-1] == count - 1


def test_as_many_as_the_option_says() -> None:
    buffer = filled(13, newest=3)
    assert buffer.sample_batch(5)["number"][-3:].tolist() == [10, 11, 12]
    assert sorted(buffer.sample_batch(2)["number"]) == [11, 12]


def test_the_others_are_drawn_from_all() -> None:
    buffer = filled(8)
    drawn = np.concatenate([buffer.sample_batch(8)["number"][:-1] for _ in range(200)])
    counts = np.bincount(drawn, minlength=8)
    assert counts.min() > 0.7 * counts.mean()


def test_a_batch_larger_than_the_buffer_is_refused_and_others_are_independent() -> None:
    buffer = filled(6, newest=4)
    with pytest.raises(ReplayUnderflowError):
        buffer.sample_batch(7)
    others = [tuple(buffer.sample_batch(6)["number"][:-4]) for _ in range(200)]
    assert {len(set(pair)) for pair in others} == {1, 2}


def test_several_batches_have_it_each() -> None:
    buffer = filled(13)
    assert [batch["number"][-1] for batch in buffer.sample_batches(4, 2)] == [12] * 4


def test_a_range_is_drawn_from_uniformly() -> None:
    buffer = filled(8)
    assert set(buffer.sample_batch(3, sample_range=slice(0, 3))["number"]) <= {0, 1, 2}
