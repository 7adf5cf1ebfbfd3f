"""What no buffer stores: one error when it is pushed, and the buffer is as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dicore.data import Batch
from dicore.errors import (
    ReplayCapacityError,
    ReplayPriorityError,
    ReplayUnderflowError,
    SchemaError,
    UsageError,
)
from dicore_compat.deque import DequeReplayBuffer
from dicore_plugins.buffers import (
    AdvancedReplayBuffer,
    ElasticReplayBuffer,
    EpisodeReplayBuffer,
    FileReplayBuffer,
    NaiveReplayBuffer,
    SequenceReplayBuffer,
)

KINDS = [
    AdvancedReplayBuffer, DequeReplayBuffer, ElasticReplayBuffer, EpisodeReplayBuffer,
    FileReplayBuffer, NaiveReplayBuffer, SequenceReplayBuffer,
]  # fmt: skip
WITH_PRIORITIES = [AdvancedReplayBuffer, DequeReplayBuffer, SequenceReplayBuffer]


def steps(count: int = 4, **more: Any) -> Batch:
    columns = {
        "obs": np.arange(3 * count, dtype=np.float32).reshape(count, 3),
        "action": np.arange(count),
        "end": np.arange(count) == count - 1,
        "env_id": np.zeros(count, np.int64),
    }
    return Batch({**columns, **more}, count)


BAD: dict[str, tuple[Any, str]] = {
    "strings": (steps(name=np.array([*"abcd"])), "'name' contains <U1; expected numbers"),
    "dates": (steps(date=np.zeros(4, "M8[s]")), r"'date' contains datetime64\[s\]"),
    "long double": (steps(x=np.zeros(4, np.longdouble)), "'x' contains float128"),
    "records": (steps(x=np.zeros(4, [("a", int)])), "expected numbers"),
    "objects": (steps(x=np.array([None] * 4)), "'x' contains Python objects"),
    "no columns": (Batch({}, 4), "no columns"),
    "columns of other lengths": (
        Batch({**steps().columns, "x": np.zeros(1)}, 4),
        r"4 samples has columns .*'x': 1",
    ),
    "a key without a name": ([{1: 2.0}], "the column 1 has no name"),
    "sparse": (steps(x=torch.eye(4).to_sparse()), r"a tensor of torch\.sparse_coo"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("kind", KINDS)
def test_what_are_no_numbers_is_refused_and_forgotten(kind: Any, name: str) -> None:
    buffer = kind({"replay_buffer_size": 16}, rng=np.random.default_rng(0))
    data, says = BAD[name]
    for _ in range(2):
        with pytest.raises(SchemaError, match=says):
            buffer.push(data)
        assert (buffer.count(), buffer.push_count) == (0, 0)
    buffer.push(steps())
    assert len(buffer.sample_batch(1)) >= 1
    getattr(buffer, "close", lambda: None)()


@pytest.mark.parametrize("kind", [DequeReplayBuffer, EpisodeReplayBuffer, FileReplayBuffer])
def test_the_first_push_fixes_nothing_if_it_is_refused(kind: Any, monkeypatch: Any) -> None:
    """Neither what is found before anything is stored, nor what is found in between."""
    buffer = kind({"replay_buffer_size": 16})
    whole = [[{"a": 1.0}], [{"b": 1.0}]]
    with pytest.raises(SchemaError):
        buffer.push(whole if kind is EpisodeReplayBuffer else [{"a": 1.0}, {"b": 1.0}])
    later = {EpisodeReplayBuffer: "_check_lengths", FileReplayBuffer: "_write"}
    stops = (buffer.buffer, "push") if kind is DequeReplayBuffer else (buffer, later[kind])
    monkeypatch.setattr(*stops, stop)
    with pytest.raises(RuntimeError, match="stop"):
        buffer.push(steps(x=np.zeros(4)))
    monkeypatch.undo()
    buffer.push(steps())
    assert buffer.count() > 0
    getattr(buffer, "close", lambda: None)()


def stop(*_: Any) -> None:
    raise RuntimeError("stop")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [0, -1, 5])
def test_draws_of_too_few_or_too_many(kind: Any, size: int) -> None:
    buffer = kind({"replay_buffer_size": 16})
    buffer.push(steps(2, end=np.ones(2, np.bool_)))
    error, says = (UsageError, "must be >= 1") if size < 1 else (ReplayUnderflowError, "asked 5")
    for replace in (False, True):
        if size < 1 or not replace:
            with pytest.raises(error, match=rf"{says}.*{buffer.count() if size > 0 else size}"):
                buffer.sample_batch(size, replace=replace)
    getattr(buffer, "close", lambda: None)()


@pytest.mark.parametrize("kind", [AdvancedReplayBuffer, DequeReplayBuffer, SequenceReplayBuffer])
def test_a_capacity_whose_tables_exceed_the_memory_is_refused(kind: Any) -> None:
    """Before they are made: a full machine ends processes without a word."""
    with pytest.raises(ReplayCapacityError, match=r"1000000000000 samples need .* are available"):
        kind({"replay_buffer_size": 10**12})


@pytest.mark.parametrize("kind", KINDS)
def test_bfloat16_is_stored_as_float32(kind: Any) -> None:
    buffer = kind({"replay_buffer_size": 16}, rng=np.random.default_rng(0))
    buffer.push(steps(x=torch.full((4,), 1.5, dtype=torch.bfloat16)))
    x = np.asarray(buffer.sample_batch(1)["x"])
    assert x.dtype == np.float32
    assert (x == 1.5).all()
    getattr(buffer, "close", lambda: None)()


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ({"env_id": np.full(4, np.nan)}, "env_id has float64; expected integers"),
        ({"env_id": np.zeros((4, 2), int)}, r"expected env_id \[4\], got \[4, 2\]"),
        ({"end": np.full(4, np.nan)}, "end has NaN"),
    ],
)
@pytest.mark.parametrize("kind", [EpisodeReplayBuffer, SequenceReplayBuffer])
def test_an_origin_that_makes_no_sense(kind: Any, column: dict[str, Any], says: str) -> None:
    buffer = kind({"replay_buffer_size": 16})
    with pytest.raises(SchemaError, match=says):
        buffer.push(steps(**column))
    buffer.push(steps())
    assert buffer.count() > 0


@pytest.mark.parametrize("ids", [["x"], [0.7], [None], [1 << 70], 3, [b"a"], [False]])
@pytest.mark.parametrize("kind", WITH_PRIORITIES)
def test_ids_that_are_no_numbers(kind: Any, ids: Any) -> None:
    buffer = kind({"replay_buffer_size": 16})
    buffer.push(steps())
    with pytest.raises(UsageError, match="ids as whole numbers"):
        buffer.update({"replay_unique_id": ids, "priority": [2.0]})


@pytest.mark.parametrize("priority", [["a"], [1 + 2j], [None], [1e39]])
@pytest.mark.parametrize("kind", WITH_PRIORITIES)
def test_priorities_that_are_no_numbers(kind: Any, priority: Any) -> None:
    """1e39 is infinite in float32, in which drawn samples have their priority."""
    buffer = kind({"replay_buffer_size": 16})
    buffer.push(steps())
    with pytest.raises(ReplayPriorityError):
        buffer.update({"replay_unique_id": [0], "priority": priority})
    with pytest.raises(ReplayPriorityError):
        buffer.push(steps(1, priority=np.array(priority)))
    assert buffer.push_count == 4


@pytest.mark.parametrize("kind", WITH_PRIORITIES)
@pytest.mark.parametrize("priority", [[3e38] * 4, [0.0] * 4, [3e38, 1e-30, 0.0, 1.0]])
def test_priorities_at_the_ends_of_their_range(kind: Any, priority: list[float]) -> None:
    """Their sum and their weights are finite, whatever alpha is."""
    for alpha in (0.0, 0.6, 1.0, 10.0):
        buffer = kind({"replay_buffer_size": 8, "alpha": alpha}, rng=np.random.default_rng(0))
        buffer.push(steps())
        buffer.update({"replay_unique_id": np.arange(4)[: buffer.count()],
                       "priority": priority[: buffer.count()]})  # fmt: skip
        assert buffer.check_valid() == (True, "")
        for _ in range(3):
            batch = buffer.sample_batch(8, replace=True)
            assert np.isfinite(batch["priority"]).all()
            assert (batch["IS"] >= 0).all()
            assert (batch["IS"] <= 1.0001).all()


@pytest.mark.parametrize("kind", [AdvancedReplayBuffer, NaiveReplayBuffer, SequenceReplayBuffer])
def test_recycled_tensors_do_not_depend_on_the_mode_of_the_first_draw(kind: Any) -> None:
    """A tensor made in inference mode could not be learned from, as long as the memory is used."""
    buffer = kind({"replay_buffer_size": 16})
    with torch.inference_mode():
        buffer.push(steps())
        for _ in range(2):
            buffer.sample_batch(1, reuse=True).to_torch()
    weight = torch.ones(3, requires_grad=True)
    for _ in range(2):
        (buffer.sample_batch(1, reuse=True).to_torch()["obs"] * weight).sum().backward()
    assert weight.grad is not None
