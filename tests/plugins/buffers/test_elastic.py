"""The elastic buffer: its size follows the env steps (FEATURES G9)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dicore.config import compile_config
from dicore.errors import ConfigError, ReplayUnderflowError
from dicore.testing.buffer import numbered_rows
from dicore_plugins.buffers import ElasticReplayBuffer, NaiveReplayBuffer


def make(**options: Any) -> ElasticReplayBuffer:
    cfg = {"replay_buffer_size": 20, "start_size": 10, "end_size": 4, "size_steps": 60, **options}
    return ElasticReplayBuffer(cfg, rng=np.random.default_rng(0))


def drawn(buffer: Any, **options: Any) -> set[int]:
    return set(buffer.sample_batch(400, replace=True, **options)["action"].tolist())


def test_it_shrinks_to_the_newest_for_good() -> None:
    buffer = make()
    buffer.push(numbered_rows(15))
    assert drawn(buffer) == set(range(5, 15))
    buffer.push(numbered_rows(3, 15), 30)
    assert (buffer.size, buffer.count()) == (7, 7)
    assert drawn(buffer) == set(range(11, 18))
    assert drawn(buffer, sample_range=slice(0, 2)) == {11, 12}
    assert drawn(buffer, sample_range=slice(None, None, -3)) == {17, 14, 11}
    assert buffer.set_buffer_size(1000) == 4
    assert drawn(buffer) == {14, 15, 16, 17}
    assert buffer.set_buffer_size(0) == 10
    assert drawn(buffer) == {14, 15, 16, 17}
    buffer.push(numbered_rows(30, 18))
    assert drawn(buffer) == set(range(38, 48))
    with pytest.raises(ReplayUnderflowError, match="asked 11, have 10"):
        buffer.sample_batch(11)


def test_its_state_and_that_of_a_naive_buffer() -> None:
    buffer, twin = make(enable_track_used_data=True), make(enable_track_used_data=True)
    buffer.push(numbered_rows(26), 45)
    twin.load_state_dict(buffer.state_dict())
    assert (twin.size, twin.count()) == (6, 6) == (buffer.size, buffer.count())
    for _ in range(3):
        one, other = (each.sample_batch(5) for each in (buffer, twin))
        assert np.array_equal(one["action"], other["action"])
    assert buffer.use_count.sum() == 15
    assert buffer.samples()["action"].tolist() == [*range(20, 26)]
    plain = NaiveReplayBuffer({"replay_buffer_size": 20})
    plain.push(numbered_rows(26))
    twin.load_state_dict(plain.state_dict())
    assert drawn(twin) == set(range(20, 26))
    assert [len(batch) for batch in twin.sample_batches(3, 4)] == [4, 4, 4]


def test_sizes_beyond_the_capacity_are_refused() -> None:
    main = {"env": "cartpole", "policy": "dqn"}
    given = ["replay_buffer=elastic", "replay_buffer.replay_buffer_size=500"]
    for name in ("start_size", "end_size"):
        with pytest.raises(ConfigError, match=rf"{name}: must be <= 500"):
            compile_config(main, overrides=[*given, f"replay_buffer.{name}=501"])
    compile_config(main, overrides=[*given, "replay_buffer.start_size=100"])
