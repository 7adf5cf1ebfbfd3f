"""A ring of frame stacks against one of arrays: equal samples, each frame once, exact states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dicore.data import Batch
from dicore.errors import ReplayCapacityError, SchemaError
from dicore_plugins.buffers import NaiveReplayBuffer, memory
from dicore_plugins.frames import FrameWriter, StackedFrames
from tests.plugins.stack_envs import assert_equal


class Stream:
    """Samples of one endless episode: stacks of three frames [2], and the next ones."""

    def __init__(self) -> None:
        self.writer = FrameWriter((2,), np.int16)
        self.writer._count = 5
        self.frames: list[tuple[int, Any]] = []
        self.step = 0

    def take(self, count: int) -> tuple[Batch, Batch]:
        """Returns the next samples with shared frames, and with copied ones."""
        while len(self.frames) < self.step + count + 3:
            row = self.writer.next_row()
            self.writer.chunk.frames[row] = len(self.frames)
            self.frames.append((self.writer.done(), self.writer.chunk))
        starts = np.arange(self.step, self.step + count)
        self.step += count
        table = np.array([number for number, _ in self.frames])
        chunks = tuple({id(chunk): chunk for _, chunk in self.frames}.values())
        columns = {
            key: StackedFrames(table[starts[:, None] + np.arange(3) + shift], chunks)
            for key, shift in (("obs", 0), ("next_obs", 1))
        }
        numbers = {"number": starts}
        plain = {key: np.asarray(each) for key, each in columns.items()}
        return Batch({**columns, **numbers}, count), Batch({**plain, **numbers}, count)


def make(capacity: int) -> NaiveReplayBuffer:
    return NaiveReplayBuffer({"replay_buffer_size": capacity}, rng=np.random.default_rng(0))


OPS = st.one_of(
    st.tuples(st.just("push"), st.integers(1, 9)),
    st.tuples(st.just("push arrays"), st.integers(1, 9)),
    st.tuples(st.just("skip"), st.integers(1, 5)),
    st.tuples(st.sampled_from(["state", "larger", "clear"]), st.just(0)),
)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 12), st.lists(OPS, max_size=14))
def test_any_calls_give_the_samples_of_arrays(capacity: int, ops: list[tuple[str, int]]) -> None:
    """What is drawn, and what a state restores, is that of a buffer of arrays."""
    stream, mine, theirs = Stream(), make(capacity), make(capacity)
    for op, count in ops:
        if op.startswith("push"):
            stacked, plain = stream.take(count)
            mine.push(plain if op == "push arrays" and mine.count() else stacked)
            theirs.push(plain)
        elif op == "skip":
            stream.take(count)
        elif op == "clear":
            mine.clear()
            theirs.clear()
        else:
            capacity += 3 * (op == "larger")
            mine, theirs = (reloaded(each, capacity) for each in (mine, theirs))
        if mine.count():
            drawn = [each.sample_batch(9, replace=True) for each in (mine, theirs)]
            assert_equal(*drawn)


def reloaded(buffer: NaiveReplayBuffer, capacity: int) -> NaiveReplayBuffer:
    other = make(capacity)
    other.load_state_dict(buffer.state_dict())
    return other


def test_each_frame_is_stored_once_and_forgotten_with_its_last_sample() -> None:
    stream, buffer = Stream(), make(100)
    for _ in range(200):
        buffer.push(stream.take(7)[0])
    (store,) = buffer._ring._frame_stores
    assert (store._refs > 0).sum() == 103
    assert store._used - len(store._free) == 103
    assert len(store.frames) <= 100 + 64
    state = buffer.state_dict()
    assert len(state["frames"][0]["frames"]) <= 103 + 2 * 7
    assert state["columns"]["obs"].dtype == np.int32


def test_unrelated_stacks_make_room_for_more_frames() -> None:
    mine, theirs = make(200), make(200)
    rng = np.random.default_rng(0)
    for _ in range(8):
        columns = {key: rng.integers(0, 99, (60, 3, 2), np.int16) for key in ("obs", "next_obs")}
        stacks = {key: StackedFrames.of(each) for key, each in columns.items()}
        mine.push(Batch(stacks, 60))
        theirs.push(Batch(columns, 60))
        assert_equal(*(each.sample_batch(99, replace=True) for each in (mine, theirs)))
    (store,) = mine._ring._frame_stores
    assert len(store.frames) < 1.25 * 200 * 6


def test_a_buffer_of_arrays_takes_stacks() -> None:
    stacked, plain = Stream().take(9)
    mine, theirs = make(20), make(20)
    for each in (mine, theirs):
        each.push(plain)
    mine.push(stacked)
    theirs.push(plain)
    assert_equal(*(each.sample_batch(40, replace=True) for each in (mine, theirs)))


def test_stacks_that_were_never_written_are_refused() -> None:
    stacked, _ = Stream().take(3)
    obs = np.empty_like(stacked["obs"])
    obs[:2] = stacked["obs"][:2]
    with pytest.raises(SchemaError, match="some of the pushed frame stacks were never written"):
        make(9).push(Batch({"obs": obs}, 3))


@pytest.mark.parametrize("stacked", [False, True])
def test_a_buffer_beyond_the_memory_is_refused_before_it_is_allocated(
    stacked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 3 << 30)
    frames = np.zeros((2, 4, 84, 84), np.uint8)
    obs: Any = StackedFrames.of(frames) if stacked else frames
    fits, needs = (400_000, "6.6") if stacked else (100_000, "26.3")
    with pytest.raises(ReplayCapacityError, match=rf"1000000 samples need {needs} GiB, but 3\.0"):
        make(1_000_000).push(Batch({"obs": obs}, 2))
    make(fits).push(Batch({"obs": obs}, 2))


def test_the_available_memory_is_known() -> None:
    known = memory.available_bytes()
    assert known is None or known > 1 << 20
