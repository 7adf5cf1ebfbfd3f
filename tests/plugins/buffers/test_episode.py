"""The episode buffer beside a plain list of episodes; the rest is BufferContract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dicore.data import Batch
from dicore.errors import (
    ReplayCapacityError,
    ReplayUnderflowError,
    SchemaError,
    UsageError,
)
from dicore_plugins.buffers import EpisodeBuffer, EpisodeReplayBuffer, NaiveReplayBuffer
from dicore_plugins.frames import StackedFrames
from tests.plugins.buffers.test_sequence import steps_of
from tests.soak import SOAK


def buffer_of(capacity: int = 10, seed: int = 0, **options: Any) -> EpisodeReplayBuffer:
    cfg = {"replay_buffer_size": capacity, **options}
    return EpisodeReplayBuffer(cfg, rng=np.random.default_rng(seed))


def numbers(episode: list[dict[str, Any]]) -> list[int]:
    return [int(step["x"]) for step in episode]


def held(buffer: EpisodeReplayBuffer) -> list[list[int]]:
    return [episode["x"].tolist() for episode in buffer._episodes]


def test_episodes_of_five_nine_and_two_steps() -> None:
    """G26: an element is an episode; `episode_len` is right while the buffer is not full."""
    buffer = buffer_of()
    episodes = [[{"x": np.int64(10 * e + t)} for t in range(n)] for e, n in enumerate((5, 9, 2))]
    assert buffer.push(episodes) == range(3)
    assert (buffer.count(), buffer.push_count) == (3, 3)
    assert buffer.episode_len == [5, 9, 2]
    drawn = buffer.sample(2)
    assert len(drawn) == 2
    wanted = [numbers(each) for each in episodes]
    assert all(numbers(each) in wanted for each in drawn)
    assert all(bool(each[-1]["end"]) and not any(s["end"] for s in each[:-1]) for each in drawn)


def test_steps_become_episodes_at_their_end() -> None:
    buffer, episode = buffer_of(), steps_of(3, 2, 4, ended=False)
    assert buffer.push(episode[:2]) == range(0)
    assert buffer.push(episode[2:6]) == range(2)
    assert held(buffer) == [[0, 1, 2], [3, 4]]
    assert buffer.push(episode[6:]) == range(2, 2)


def test_episodes_of_several_environments() -> None:
    buffer = buffer_of()
    envs = [steps_of(4, env_id=env, start=10 * env) for env in range(3)]
    for rows, env in ((slice(2), 0), (slice(4), 1), (slice(3), 2), (slice(3, 4), 2),
                      (slice(2, 4), 0)):  # fmt: skip
        buffer.push(envs[env][rows])
    assert held(buffer) == [[10, 11, 12, 13], [20, 21, 22, 23], [0, 1, 2, 3]]


def test_an_episode_with_missing_steps_is_left_out() -> None:
    buffer, episode = buffer_of(), steps_of(6, 2)
    buffer.push(episode[:2])
    buffer.push(episode[3:])
    assert held(buffer) == [[6, 7]]


def test_a_state_knows_of_episodes_with_missing_steps() -> None:
    buffer, resumed, episode = buffer_of(), buffer_of(), steps_of(6, 2)
    buffer.push(episode[:2])
    buffer.push(episode[3:5])
    resumed.load_state_dict(buffer.state_dict())
    resumed.push(episode[5:])
    assert held(resumed) == [[6, 7]]


def test_batches_of_steps_and_padded_ones() -> None:
    flat, padded = buffer_of(), buffer_of(padded=True)
    for each in (flat, padded):
        each.push(steps_of(2, 4, 1))
    batch = flat.sample_batch(30, replace=True)
    cuts = np.flatnonzero(batch["end"]) + 1
    drawn = [each.tolist() for each in np.split(batch["x"], cuts[:-1])]
    assert {tuple(each) for each in drawn} == {(0, 1), (2, 3, 4, 5), (6,)}
    batch = padded.sample_batch(30, replace=True)
    assert batch["obs"].shape == (30, 4, 1)
    rows = zip(batch["x"], batch["valid"], batch["episode_len"], strict=True)
    for x, valid, length in rows:
        assert valid.tolist() == [at < length for at in range(4)]
        assert x[valid].tolist() in drawn
        assert (x[~valid] == x[valid][-1]).all()


def test_an_episode_that_is_too_long_is_refused_whole() -> None:
    buffer, long = buffer_of(max_episode_len=5), steps_of(8, env_id=3)
    buffer.push(long[:4])
    for data in (long[4:], [steps_of(6)]):
        with pytest.raises(ReplayCapacityError, match=r"has (8|6) steps; max_episode_len is 5"):
            buffer.push(data)
    assert buffer.count() == 0
    buffer.push(Batch({**long[4:5].columns, "end": np.ones(1, np.bool_)}))
    assert held(buffer) == [[0, 1, 2, 3, 4]]


def test_bad_data_is_refused() -> None:
    buffer = buffer_of()
    buffer.push(steps_of(3))
    for data, error in (
        (steps_of(3).map(lambda each: each[:, None] if each.ndim == 1 else each), SchemaError),
        ([steps_of(2), 5], SchemaError),
        ([[{"x": 1}]], SchemaError),
        (5, SchemaError),
    ):
        with pytest.raises(error):
            buffer.push(data)  # type: ignore[arg-type]
    assert buffer.count() == 1
    with pytest.raises(ReplayUnderflowError, match=r"asked 2, have 1 episodes \(replace=False\)"):
        buffer.sample(2)
    with pytest.raises(UsageError, match="batch_size must be >= 1"):
        buffer.sample_batch(0)
    with pytest.raises(UsageError, match="no episodes"):
        buffer.load_state_dict(NaiveReplayBuffer({}).state_dict())
    buffer.push(steps_of(2))
    with pytest.raises(ReplayCapacityError, match="2 episodes"):
        buffer_of(1).load_state_dict(buffer.state_dict())


def test_frame_stacks_share_their_frames() -> None:
    frames = np.arange(6 * 2 * 4, dtype=np.uint8).reshape(6, 2, 2, 2)
    steps = steps_of(4, 2).columns
    buffer = EpisodeBuffer({})
    buffer.push(Batch({"obs": StackedFrames.of(frames), "x": steps["x"], "end": steps["end"]}))
    batch = buffer.sample_batch(8, replace=True)
    np.testing.assert_array_equal(batch["obs"], frames[batch["x"]])
    twin = EpisodeBuffer({})
    twin.load_state_dict(buffer.state_dict())
    batch = twin.sample_batch(8, replace=True)
    np.testing.assert_array_equal(batch["obs"], frames[batch["x"]])


def test_an_episode_of_frame_stacks_is_a_copy() -> None:
    frames = np.arange(6 * 2 * 4, dtype=np.uint8).reshape(6, 2, 2, 2)
    pushed = StackedFrames.of(frames)
    buffer = EpisodeBuffer({})
    buffer.push([Batch({"obs": pushed, "x": np.arange(6)})])
    pushed.numbers[:] = pushed.numbers[0]
    np.testing.assert_array_equal(buffer.sample_batch(1)["obs"], frames)


@pytest.mark.parametrize(("most", "fits"), [(100_000, False), (40, True)])
def test_an_episode_that_will_not_fit_is_refused_while_it_grows(
    monkeypatch: pytest.MonkeyPatch, most: int, fits: bool
) -> None:
    """4 GiB a step and 200 GiB in all: what 32 steps hold would double."""
    module, buffer = "dicore_plugins.buffers.episode.buffer", buffer_of(max_episode_len=most)
    monkeypatch.setattr(f"{module}.row_bytes", lambda leaves: 4 << 30)
    free = lambda: (200 << 30) - (4 << 30) * sum(map(len, buffer._running.get(0, ())))  # noqa: E731
    monkeypatch.setattr(f"{module}.available_bytes", free)
    episode = steps_of(50, ended=False)
    for at in range(31):
        buffer.push(episode[at : at + 1])
    if fits:
        assert buffer.push(episode[31:40]) == range(0)
        return
    with pytest.raises(ReplayCapacityError, match=r"have 31 steps so far; 33 more need 132.0 GiB"):
        buffer.push(episode[31:32])
    assert sum(map(len, buffer._running[0])) == 31, "nothing is taken"


def test_memory_is_estimated_by_the_first_episodes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """RELIABILITY H14: an error before anything is stored; a warning if later ones are longer."""
    monkeypatch.setattr("dicore_plugins.buffers.episode.buffer.available_bytes", lambda: 22 << 30)
    rows = [{"x": np.zeros(1 << 12, np.float32), "end": at == 99} for at in range(100)]
    large = EpisodeReplayBuffer({"replay_buffer_size": 100_000})
    with pytest.raises(ReplayCapacityError, match=r"episodes of 100 steps need 152\.6 GiB, but 22"):
        large.push([rows])
    assert large.count() == large.push_count == 0
    buffer = EpisodeReplayBuffer({"replay_buffer_size": 100_000})
    buffer.push([rows[-1:]])
    buffer.push([rows])
    assert buffer.count() == 2
    assert "100000 episodes of 50 steps need 77.1 GiB" in caplog.text


class AgainstAList(RuleBasedStateMachine):
    """Pushes, gaps, draws and states beside a plain list of episodes."""

    CAPACITY = 4

    def __init__(self) -> None:
        super().__init__()
        self.buffer = buffer_of(self.CAPACITY)
        self.episodes: list[list[int]] = []
        self.running: dict[int, list[int]] = {}
        self.lost: set[int] = set()
        self.clock = dict.fromkeys(range(3), 0)
        self.number = self.pushed = 0

    @rule(data=st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=12))
    def push(self, data: list[tuple[int, bool]]) -> None:
        rows = []
        for env, end in data:
            at = self.clock[env] = self.clock[env] + 1
            rows.append(
                {"x": np.int64(self.number), "obs": np.float64(at), "next_obs": np.float64(at + 1),
                 "end": np.bool_(end), "env_id": np.int64(env)}
            )  # fmt: skip
            self.running.setdefault(env, []).append(self.number)
            self.number += 1
            if end:
                episode = self.running.pop(env)
                if env not in self.lost:
                    self.episodes.append(episode)
                    self.pushed += 1
                self.lost.discard(env)
        self.buffer.push(rows)
        self.episodes = self.episodes[-self.CAPACITY :]

    @rule(env=st.integers(0, 2))
    def lose_a_step(self, env: int) -> None:
        self.clock[env] += 1
        if env in self.running:
            self.lost.add(env)

    @rule(lengths=st.lists(st.integers(1, 4), max_size=3))
    def push_whole(self, lengths: list[int]) -> None:
        data = []
        for length in lengths:
            x = np.arange(self.number, self.number + length)
            obs = x.astype(np.float64)
            zero = np.zeros(length, np.int64)
            data.append(Batch({"x": x, "obs": obs, "next_obs": obs, "env_id": zero}))
            self.episodes.append(x.tolist())
            self.number += length
            self.pushed += 1
        self.buffer.push(data)
        self.episodes = self.episodes[-self.CAPACITY :]

    @rule(count=st.integers(1, 3))
    def draw(self, count: int) -> None:
        if len(self.episodes) < count:
            with pytest.raises(ReplayUnderflowError):
                self.buffer.sample(count)
        else:
            assert all(numbers(each) in self.episodes for each in self.buffer.sample(count))

    @rule()
    def resume(self) -> None:
        twin = buffer_of(self.CAPACITY)
        twin.load_state_dict(self.buffer.state_dict())
        self.buffer = twin

    @rule()
    def clear(self) -> None:
        self.buffer.clear()
        self.episodes, self.running, self.lost = [], {}, set()

    @invariant()
    def agrees(self) -> None:
        assert held(self.buffer) == self.episodes
        assert self.buffer.push_count == self.pushed
        assert self.buffer.episode_len == [len(each) for each in self.episodes]


AgainstAList.TestCase.settings = settings(
    max_examples=40 if SOAK else 20, stateful_step_count=25, deadline=None
)
TestAgainstAList = AgainstAList.TestCase
