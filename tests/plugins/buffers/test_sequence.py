"""The sequence buffer beside a plain list of steps; the rest is BufferContract."""

from __future__ import annotations

import logging
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dicore.config import compile_config
from dicore.data import Batch
from dicore.errors import (
    ConfigError,
    ReplayCapacityError,
    ReplayPriorityError,
    ReplayUnderflowError,
    SchemaError,
    UsageError,
)
from dicore_plugins.buffers import (
    EpisodeReplayBuffer,
    NaiveReplayBuffer,
    SequenceBuffer,
    SequenceReplayBuffer,
)
from dicore_plugins.buffers.sequence.index import SequenceIndex
from dicore_plugins.frames import FrameWriter, StackedFrames
from tests.soak import SOAK


def buffer_of(capacity: int = 64, seed: int = 0, **options: Any) -> SequenceReplayBuffer:
    cfg = {"replay_buffer_size": capacity, "kernels": "numpy", **options}
    return SequenceReplayBuffer(cfg, rng=np.random.default_rng(seed))


def steps_of(*lengths: int, env_id: int = 0, start: int = 0, ended: bool = True) -> Batch:
    """Returns episodes of these lengths; `x` counts the steps, `obs` is 100 * episode + step."""
    count = sum(lengths)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    at = np.concatenate([np.arange(each) for each in lengths])
    end = at == np.repeat(lengths, lengths) - 1
    end[-1] &= ended
    obs = (100 * episode + at).astype(np.float32)[:, None]
    return Batch(
        {
            "x": start + np.arange(count),
            "obs": obs,
            "next_obs": obs + 1,
            "state": np.repeat(obs, 3, 1),
            "end": end,
            "env_id": np.full(count, env_id),
        }
    )


def drawn(buffer: Any, count: int = 400) -> set[tuple[int, ...]]:
    """Returns the steps of all sequences."""
    batch = buffer.sample_batch(count, replace=True)
    return {tuple(x[valid].tolist()) for x, valid in zip(batch["x"], batch["valid"], strict=True)}


# ---- which sequences there are


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"unroll_len": 4}, [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9), (10, 11, 12)]),
        ({"unroll_len": 4, "padding": False}, [(0, 1, 2, 3), (4, 5, 6, 7)]),
        (
            {"unroll_len": 4, "stride": 2},
            [(0, 1, 2, 3), (2, 3, 4, 5), (4, 5, 6, 7), (6, 7, 8, 9), (10, 11, 12)],
        ),
        (
            {"unroll_len": 5, "stride": 2, "padding": "all"},
            [(0, 1, 2, 3, 4), (2, 3, 4, 5, 6), (4, 5, 6, 7, 8), (6, 7, 8, 9), (8, 9),
             (10, 11, 12), (12,)],
        ),
        ({"unroll_len": 4, "stride": 6}, [(0, 1, 2, 3), (6, 7, 8, 9), (10, 11, 12)]),
        ({"unroll_len": 3, "burn_in": 2}, [(0, 1, 2, 3, 4), (3, 4, 5, 6, 7), (6, 7, 8, 9),
                                          (10, 11, 12)]),
        ({"unroll_len": 20}, [tuple(range(10)), (10, 11, 12)]),
    ],
)  # fmt: skip
def test_sequences_of_an_episode_of_ten_and_one_of_three(
    options: dict[str, Any], wanted: list[tuple[int, ...]]
) -> None:
    buffer = buffer_of(**options)
    buffer.push(steps_of(10, 3))
    assert buffer.count() == len(wanted)
    assert buffer.step_count == buffer.push_count == 13
    assert drawn(buffer) == set(wanted)


def test_a_running_episode_has_its_full_sequences() -> None:
    buffer = buffer_of(unroll_len=4)
    buffer.push(steps_of(10, ended=False))
    assert drawn(buffer) == {(0, 1, 2, 3), (4, 5, 6, 7)}


def test_after_its_end_a_sequence_repeats_the_last_step() -> None:
    buffer = buffer_of(unroll_len=4)
    buffer.push(steps_of(2))
    batch = buffer.sample_batch(1)
    assert batch["x"].tolist() == [[0, 1, 1, 1]]
    assert batch["valid"].tolist() == [[True, True, False, False]]
    assert batch["loss_mask"].tolist() == [[1, 1, 0, 0]]
    assert batch["end"].tolist() == [[False, True, True, True]]


def test_burn_in_counts_only_at_the_start_of_an_episode() -> None:
    buffer = buffer_of(unroll_len=3, burn_in=2)
    buffer.push(steps_of(7))
    batch = buffer.sample_batch(40, replace=True)
    masks = {
        int(x[0]): mask.tolist() for x, mask in zip(batch["x"], batch["loss_mask"], strict=True)
    }
    assert masks == {0: [1, 1, 1, 1, 1], 3: [0, 0, 1, 1, 0]}


def test_each_step_is_learned_from_once() -> None:
    buffer = buffer_of(unroll_len=3, burn_in=2)
    buffer.push(steps_of(12, 5, 1, 30))
    starts = buffer._index.starts
    batch = buffer._gathered(np.sort(starts), buffer._priorities.scale, reuse=False)
    counted = np.bincount(batch["x"][batch["loss_mask"] > 0])
    assert counted.tolist() == [1] * 48


def test_single_steps_have_no_time_axis() -> None:
    buffer = buffer_of(unroll_len=1)
    buffer.push(steps_of(5))
    batch = buffer.sample_batch(3)
    assert batch["x"].shape == (3,)
    assert "valid" not in batch


def test_the_recurrent_state_is_that_of_the_first_step() -> None:
    buffer = buffer_of(unroll_len=4, state_keys=("state",))
    buffer.push(steps_of(10))
    for reuse in (False, True, True, True):
        batch = buffer.sample_batch(8, replace=True, reuse=reuse)
        wanted = np.repeat(batch["obs"][:, 0], 3, 1)
        np.testing.assert_array_equal(batch["state"], wanted)
        np.testing.assert_array_equal(batch.to_torch()["state"].numpy(), wanted)


def test_states_of_refused_steps_fix_nothing() -> None:
    buffer = buffer_of(unroll_len=2, state_keys=("h",))
    steps = steps_of(4).columns
    with pytest.raises(SchemaError, match="'name' contains <U1"):
        buffer.push(Batch({**steps, "h": np.zeros((4, 3)), "name": np.array([*"abcd"])}))
    buffer.push(Batch({**steps, "h": np.zeros((4, 5), np.float32)}))
    assert buffer.count() > 0


def test_recurrent_states_within_a_sequence() -> None:
    buffer = buffer_of(unroll_len=5, state_keys=("state",), state_every=2)
    buffer.push(steps_of(10))
    batch = buffer.sample_batch(8, replace=True)
    assert batch["state"].shape == (8, 3, 3)
    np.testing.assert_array_equal(batch["state"][..., 0], batch["obs"][:, ::2, 0])


@pytest.mark.parametrize(("stride", "every", "kept"), [(5, 0, 5), (4, 2, 2), (1, 0, 1), (3, 2, 1)])
def test_states_of_other_steps_are_not_stored(stride: int, every: int, kept: int) -> None:
    """Whatever is overwritten, and after a restart; the memory does not grow on."""
    options = {"unroll_len": 5, "stride": stride, "state_keys": ("state",), "state_every": every}
    buffer, rng = buffer_of(60, **options), np.random.default_rng(1)
    for number in range(60):
        lengths = rng.integers(1, 30, 2)
        buffer.push(steps_of(*lengths, env_id=number % 2, ended=bool(number % 3)))
        batch = buffer.sample_batch(32, replace=True)
        state, obs = batch["state"], batch["obs"]
        if every:
            held = batch["valid"][:, ::every]
            np.testing.assert_array_equal(state[held][:, 0], obs[:, ::every][held][:, 0])
        else:
            np.testing.assert_array_equal(state[:, 0], obs[:, 0, 0])
        if number % 10 == 9:
            twin = buffer_of(60 + number, **options)
            twin.load_state_dict(buffer.state_dict())
            for _ in range(2):
                first, again = (each.sample_batch(16, replace=True) for each in (buffer, twin))
                for key, column in first.items():
                    if key != "replay_buffer_idx":
                        np.testing.assert_array_equal(column, again[key])
    buffer.push(steps_of(60))
    assert len(buffer._states.state_dict(60)["slots"]) == 60 // kept
    assert buffer._states._room <= 64


def test_memory_in_the_order_of_time() -> None:
    twins = [buffer_of(unroll_len=4, time_major=order) for order in (False, True)]
    for each in twins:
        each.push(steps_of(20, 7))
    for reuse in (False, True):
        by_batch, by_time = (each.sample_batch(6, replace=True, reuse=reuse) for each in twins)
        for key, column in by_batch.items():
            np.testing.assert_array_equal(column, by_time[key])
        assert by_time.to_torch()["obs"].transpose(0, 1).is_contiguous()


# ---- priorities


def test_the_priority_of_a_sequence_mixes_largest_and_mean() -> None:
    buffer = buffer_of(unroll_len=4, alpha=1.0, eta=0.9, priority_eps=1e-300)
    buffer.push(steps_of(6))
    batch = buffer.sample_batch(20, replace=True)
    error = np.where(batch["x"] < 4, [1.0, 2, 3, 6], [1.0, 3, 50, 50])  # 50: after the end
    buffer.update({"replay_unique_id": batch["replay_unique_id"], "priority": error})
    priority = dict(zip(*(buffer.sample_batch(50, replace=True)[key].tolist() for key in
                          ("replay_unique_id", "priority")), strict=True))  # fmt: skip
    assert priority == pytest.approx({0: 0.9 * 6 + 0.1 * 3, 4: 0.9 * 3 + 0.1 * 2})
    counts = np.bincount(buffer.sample_batch(8000, replace=True)["x"][:, 0])
    assert counts[4] / 8000 == pytest.approx(2.9 / (2.9 + 5.7), rel=0.02)


def test_weights_are_over_the_largest() -> None:
    buffer = buffer_of(unroll_len=2, alpha=1.0, beta=1.0, priority_eps=1e-300)
    buffer.push(steps_of(8))
    assert buffer.sample_batch(4)["IS"].tolist() == [1, 1, 1, 1]
    buffer.update({"replay_unique_id": [0, 2, 4, 6], "priority": torch.tensor([1.0, 2, 3, 4])})
    batch = buffer.sample_batch(40, replace=True)
    np.testing.assert_allclose(batch["IS"], 1 / (batch["x"][:, 0] / 2 + 1), rtol=1e-6)


def test_priorities_of_steps_in_another_order_are_refused() -> None:
    """Turned around, [T, B] has as many as [B, T]."""
    buffer = buffer_of(unroll_len=2)
    buffer.push(steps_of(8))
    batch = buffer.sample_batch(3)
    with pytest.raises(UsageError, match=r"expected priorities \[3, 2\] of the steps, got \[2, 3"):
        buffer.update({**batch.columns, "priority": np.ones((2, 3))})


def test_priorities_of_pushed_steps() -> None:
    buffer = buffer_of(unroll_len=2, alpha=1.0, eta=1.0, priority_eps=1e-300)
    columns = steps_of(6).columns
    buffer.push(Batch({**columns, "priority": np.array([0, 0, 1, 2, 6, 5])}))
    assert drawn(buffer) == {(2, 3), (4, 5)}
    more = steps_of(6, start=6).columns
    buffer.push(Batch(more))
    assert buffer._priorities.of[[6, 8, 10]].tolist() == [6, 6, 6]
    with pytest.raises(ReplayPriorityError, match="index 1"):
        buffer.push(Batch({**more, "priority": np.array([0, np.nan, 1, 2, 6, 5])}))
    assert buffer.push_count == 12


def test_priorities_of_overwritten_sequences_are_skipped() -> None:
    buffer = buffer_of(8, unroll_len=2)
    buffer.push(steps_of(8))
    buffer.push(steps_of(4, start=8))
    buffer.update({"replay_unique_id": [0, 2, 3, 4], "priority": [9.0, 9, 9, 5]})
    priorities = set(buffer.sample_batch(50, replace=True)["priority"].tolist())
    assert sorted(priorities) == pytest.approx([1, 5.00001])
    with pytest.raises(UsageError, match="never pushed"):
        buffer.update({"replay_unique_id": [99], "priority": [1.0]})
    assert buffer.check_valid() == (True, "")


def test_without_alpha_priorities_have_no_effect() -> None:
    buffer = buffer_of(unroll_len=2, alpha=0.0)
    buffer.push(steps_of(8))
    buffer.update({"replay_unique_id": [0, 2, 4, 6], "priority": [0.0, 0, 0, 9]})
    assert len(drawn(buffer)) == 4


# ---- where steps are missing


def test_no_sequence_spans_missing_steps(caplog: pytest.LogCaptureFixture) -> None:
    """A collector left out step 3; the episode goes on as another piece."""
    buffer, episode = buffer_of(unroll_len=2), steps_of(8)
    buffer.push(episode[:3])
    buffer.push(episode[4:])
    assert drawn(buffer) == {(0, 1), (4, 5), (6, 7)}
    assert "steps are missing before a pushed step of env 0" in caplog.text
    assert "(n_sample, random_collect_size) that are multiples of" in caplog.text


def test_nstep_samples_could_hide_a_gap(caplog: pytest.LogCaptureFixture) -> None:
    """Their next_obs is not the one of the next step: no sequences; of episodes, a warning."""
    steps = Batch({**steps_of(8).columns, "value_gamma": np.full(8, 0.9, np.float32)})
    buffer = buffer_of(unroll_len=2)
    with pytest.raises(SchemaError, match="n-step samples: their next_obs is n steps later"):
        buffer.push(steps)
    assert buffer.push_count == buffer.count() == 0
    for each in (buffer_of(unroll_len=1), EpisodeReplayBuffer({})):
        each.push(steps)
        assert each.count() > 0
    assert len(caplog.messages) == 1
    assert "n-step samples do not tell whether steps are missing" in caplog.messages[0]


def test_gaps_between_steps_with_nstep_columns(caplog: pytest.LogCaptureFixture) -> None:
    """Those of r2d2, whose next_obs is one step later."""
    buffer = buffer_of(unroll_len=2)
    more = {"value_gamma": np.full(8, 0.9, np.float32), "bridge": np.ones(8, np.int64)}
    steps = Batch({**steps_of(8).columns, **more})
    buffer.push(steps[:3])
    buffer.push(steps[4:])
    assert drawn(buffer) == {(0, 1), (4, 5), (6, 7)}
    assert "steps are missing" in caplog.text


def test_steps_without_next_obs_are_taken_to_follow_each_other() -> None:
    buffer = buffer_of(unroll_len=2)
    rows = [{"x": np.int64(x), "done": x == 4} for x in range(6)]
    buffer.push(rows[:3])
    buffer.push(rows[3:])
    assert drawn(buffer) == {(0, 1), (2, 3), (4,)}


def test_environments_that_come_and_go() -> None:
    buffer = buffer_of(30, unroll_len=2)
    for env in range(200):
        buffer.push(steps_of(3, env_id=env, start=3 * env))
    assert drawn(buffer) == {
        each for env in range(190, 200) for each in ((3 * env, 3 * env + 1), (3 * env + 2,))
    }
    assert len(buffer._index._head) < 100
    assert buffer.check_valid() == (True, "")


def test_several_environments_in_one_push() -> None:
    """The columns of a collector are by step and then by environment."""
    buffer = buffer_of(unroll_len=2)
    envs = [steps_of(3, 3, env_id=env, start=100 * env).columns for env in range(3)]
    together = {key: np.stack([each[key] for each in envs], 1) for key in envs[0]}
    buffer.push(Batch({k: each.reshape(-1, *each.shape[2:]) for k, each in together.items()}))
    assert drawn(buffer) == {
        tuple(100 * env + at for at in each)
        for env in range(3)
        for each in ((0, 1), (2,), (3, 4), (5,))
    }


# ---- bad input


def test_bad_steps_are_refused_whole() -> None:
    buffer = buffer_of(unroll_len=2, state_keys=("state",))
    good = steps_of(4).columns
    buffer.push(Batch(dict(good)))
    bad = {
        "no column state": {k: v for k, v in good.items() if k != "state"},
        "column 'state'": {**good, "state": np.zeros((4, 2), np.float32)},
        "column 'obs'": {**good, "obs": np.zeros((4, 2), np.float32)},
        "single steps": {**good, "end": np.zeros((4, 3), np.bool_)},
        "the column IS of the steps": {**good, "IS": np.zeros(4), "valid": np.ones(4)},
    }
    for text, columns in bad.items():
        with pytest.raises(SchemaError, match=text):
            buffer.push(Batch(columns))
        assert (buffer.count(), buffer.push_count) == (2, 4)
    with pytest.raises(ReplayUnderflowError, match="asked 3, have 2"):
        buffer.sample_batch(3)
    assert buffer.check_valid() == (True, "")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"unroll_len": 8, "replay_buffer_size": 4}, "must be >= 8, the steps of one sequence"),
        ({"state_every": 2}, "no effect without state_keys"),
    ],
)
def test_options_that_contradict_each_other(options: dict[str, Any], says: str) -> None:
    replay = {"type": "sequence", **options}
    with pytest.raises(ConfigError, match=says):
        compile_config(
            {"env": {"type": "cartpole"},
             "policy": {"type": "dqn", "other": {"replay_buffer": replay}}}
        )  # fmt: skip


def test_states_of_other_buffers_are_refused() -> None:
    buffer = buffer_of(unroll_len=4)
    buffer.push(steps_of(10))
    with pytest.raises(UsageError, match="sequences of 4 steps every 4"):
        buffer_of(unroll_len=3).load_state_dict(buffer.state_dict())
    with pytest.raises(ReplayCapacityError, match="10 steps"):
        buffer_of(8, unroll_len=4).load_state_dict(buffer.state_dict())
    with pytest.raises(UsageError, match="no sequences"):
        buffer.load_state_dict(NaiveReplayBuffer({}).state_dict())
    assert drawn(buffer) == {(0, 1, 2, 3), (4, 5, 6, 7), (8, 9)}


# ---- beside a list


class AgainstAList(RuleBasedStateMachine):
    """Pushes, gaps, draws, priorities and states beside a plain list of steps."""

    CAPACITY, LENGTH, STRIDE = 11, 3, 2

    def __init__(self) -> None:
        super().__init__()
        self.buffer = self.made()
        self.pushed = 0
        self.pieces: list[tuple[list[int], bool]] = []
        self.running: dict[int, list[int]] = {}
        self.clock = dict.fromkeys(range(3), 0)
        self.priority: dict[int, float] = {}
        self.highest = 1.0
        self.sequences_before: dict[int, list[int]] = {}

    def made(self) -> Any:
        options = {"unroll_len": self.LENGTH, "stride": self.STRIDE, "priority_eps": 1e-9}
        return buffer_of(self.CAPACITY, alpha=1.0, **options)

    @rule(data=st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=14))
    def push(self, data: list[tuple[int, bool]]) -> None:
        rows = []
        for env, end in data:
            at = self.clock[env] = self.clock[env] + 1
            rows.append(
                {"x": np.int64(self.pushed), "obs": np.float64(at), "next_obs": np.float64(at + 1),
                 "end": np.bool_(end), "env_id": np.int64(env)}
            )  # fmt: skip
            piece = self.running.setdefault(env, [])
            if not piece:
                self.pieces.append((piece, False))
            piece.append(self.pushed)
            self.pushed += 1
            if end:
                self.pieces = [(p, p is piece or done) for p, done in self.pieces]
                self.running.pop(env)
        before = set(self.sequences_before)
        self.buffer.push(rows)
        self.sequences_before = self.sequences()
        for start in self.sequences_before.keys() - before:
            self.priority[start] = self.highest

    @rule(env=st.integers(0, 2))
    def lose_a_step(self, env: int) -> None:
        self.clock[env] += 1
        self.running.pop(env, None)

    def sequences(self) -> dict[int, list[int]]:
        """Returns the steps of all sequences by the first."""
        found = {}
        for piece, ended in self.pieces:
            count = len(piece)
            for start in range(0, count, self.STRIDE):
                whole = start + self.LENGTH <= count
                rest = ended and (start == 0 or start + self.LENGTH - self.STRIDE < count)
                if (whole or rest) and piece[start] >= self.pushed - self.CAPACITY:
                    found[piece[start]] = piece[start : start + self.LENGTH]
        return found

    @rule(count=st.integers(1, 4), reuse=st.booleans())
    def draw(self, count: int, reuse: bool) -> None:
        wanted = self.sequences()
        if len(wanted) < count:
            with pytest.raises(ReplayUnderflowError):
                self.buffer.sample_batch(count)
            return
        batch = self.buffer.sample_batch(count, reuse=reuse)
        for row in batch.rows():
            steps = wanted[int(row["replay_unique_id"])]
            assert row["x"][row["valid"]].tolist() == steps
            assert (row["x"][~row["valid"]] == steps[-1]).all()
            assert np.isclose(row["priority"], self.priority[steps[0]])

    @precondition(lambda self: self.pushed)
    @rule(data=st.data())
    def update(self, data: Any) -> None:
        number = data.draw(st.integers(0, self.pushed - 1))
        priority = data.draw(st.floats(0, 100))
        self.buffer.update({"replay_unique_id": [number], "priority": [priority]})
        if number in self.sequences():
            self.priority[number] = priority + 1e-9
            self.highest = max(self.highest, priority + 1e-9)

    @rule()
    def resume(self) -> None:
        twin = self.made()
        twin.load_state_dict(self.buffer.state_dict())
        self.buffer = twin

    @rule()
    def clear(self) -> None:
        self.buffer.clear()
        self.pieces, self.running, self.sequences_before = [], {}, {}

    @invariant()
    def agrees(self) -> None:
        assert self.buffer.check_valid() == (True, "")
        assert self.buffer.push_count == self.pushed
        wanted = self.sequences()
        assert self.buffer.count() == len(wanted)
        by_age = self.buffer._by_age()
        ids = self.buffer._ring.ids(by_age).tolist()
        assert ids == sorted(wanted)
        if ids:
            steps = self.buffer._gathered(by_age, self.buffer._priorities.scale, reuse=False)
            for start, x, valid in zip(ids, steps["x"], steps["valid"], strict=True):
                assert x[valid].tolist() == wanted[start]


AgainstAList.TestCase.settings = settings(
    max_examples=50 if SOAK else 25, stateful_step_count=30, deadline=None
)
TestAgainstAList = AgainstAList.TestCase


# ---- state and threads


@pytest.mark.parametrize("capacity", [16, 24])
@pytest.mark.parametrize("pushed", [10, 16, 40])
def test_the_state_goes_on_as_it_would_have(capacity: int, pushed: int) -> None:
    """A larger buffer gets the steps by age; one of the same capacity also draws the same."""
    options = {"unroll_len": 3, "state_keys": ("state",)}
    buffer, twin = buffer_of(16, **options), buffer_of(capacity, 1, **options)
    episode = steps_of(50)
    for start in range(0, pushed, 2):
        buffer.push(episode[start : start + 2])
    buffer.sample_batch(2)
    buffer.update({"replay_unique_id": [pushed - 4 - (pushed - 4) % 3], "priority": [3.0]})
    twin.load_state_dict(buffer.state_dict())
    assert twin.check_valid() == (True, "")
    for start in (pushed, pushed + 2):
        one, other = buffer.sample_batch(3), twin.sample_batch(3)
        if capacity == 16:
            assert all(np.array_equal(one[key], other[key]) for key in one.columns)
        np.testing.assert_array_equal(other["state"][:, 0], other["obs"][:, 0, 0])
        for each in (buffer, twin):
            each.push(episode[start : start + 2])
            assert each.check_valid() == (True, "")
    if capacity == 24 and pushed < 16:
        assert drawn(twin) >= drawn(buffer)


def test_one_thread_pushes_and_two_sample() -> None:
    """G8: every sequence is whole."""
    buffer, wide = buffer_of(512, unroll_len=4, stride=2), 300
    stop, torn = time.monotonic() + 0.5, [0, 0]

    def push() -> None:
        start = 0
        while time.monotonic() < stop:
            number = np.arange(start, start + 32)
            end = number % 13 == 12
            obs = np.repeat(number[:, None], wide, 1)
            buffer.push(Batch({"x": number, "obs": obs, "end": end}))
            start += 32

    def sample(name: int) -> None:
        while time.monotonic() < stop:
            if buffer.count() < 8:
                continue
            batch = buffer.sample_batch(8, reuse=name == 1)
            x, valid = batch["x"], batch["valid"]
            follows = (np.diff(x, axis=1) == 1) | ~valid[:, 1:]
            same = (batch["obs"] == x[..., None]).all()
            torn[name] += not (follows.all() and same)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(3) as threads:
            for each in [threads.submit(push), *(threads.submit(sample, i) for i in (0, 1))]:
                each.result()
    finally:
        sys.setswitchinterval(interval)
    assert torn == [0, 0]


def test_uneven_streams_make_the_log_wider() -> None:
    index = SequenceIndex(256, 2, 1, padding=True)
    for start in range(0, 512, 64):
        slots = (start + np.arange(64)) % 256
        env_id = (np.arange(64) % 32 == 0).astype(np.int64)
        index.push(slots, env_id, np.zeros(64, np.bool_))
        assert index.check_valid(min(start + 64, 256)) == (True, "")
    assert index._log.shape == (2, 256)


def test_closing_a_buffer_in_memory_changes_nothing() -> None:
    buffer = buffer_of()
    buffer.push(steps_of(4))
    buffer.close()
    assert buffer.step_count == 4


def test_samples_of_the_alias_are_rows() -> None:
    buffer = SequenceBuffer({"unroll_len": 2})
    buffer.push(steps_of(4).rows())
    rows = buffer.sample(2)
    assert [row["x"].shape for row in rows] == [(2,), (2,)]
    with pytest.raises(UsageError, match="batch_size must be >= 1"):
        buffer.sample(0)


def test_rates_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    buffer = buffer_of(unroll_len=2, periodic_thruput_seconds=1e-9)
    buffer.push(steps_of(4))
    with caplog.at_level(logging.INFO, "dicore.buffer"):
        buffer.sample_batch(2)
    assert "samples/s pushed" in caplog.text


def test_the_weights_of_a_draw_have_the_beta_that_the_buffer_told_before() -> None:
    buffer = SequenceReplayBuffer({"alpha": 1.0, "beta": 0.0, "anneal_step": 4})
    buffer.push(Batch({"x": np.arange(2.0), "priority": np.array([1.0, 3.0])}))
    for draw in range(6):
        assert buffer.beta == min(1.0, draw / 4)
        batch = buffer.sample_batch(2, replace=True)
        wanted = (1.0 / batch["priority"]) ** min(1.0, draw / 4)
        np.testing.assert_allclose(batch["IS"], wanted, rtol=1e-4)


@pytest.mark.parametrize("kind", [SequenceReplayBuffer, EpisodeReplayBuffer])
def test_stacks_of_an_environment_that_was_not_pushed_before(kind: Any) -> None:
    """There is no earlier step of it that could be missing."""
    writer, numbers = FrameWriter((2, 2), np.uint8), []
    for _ in range(9):
        writer.chunk.frames[writer.next_row()] = len(numbers)
        numbers.append(writer.done())
    stacks = np.array(numbers)[np.arange(6)[:, None] + np.arange(3)]
    buffer = kind({"unroll_len": 3} if kind is SequenceReplayBuffer else {})
    for env in (0, 1):
        rows = slice(3 * env, 3 * env + 3)
        columns = {
            "obs": StackedFrames(stacks[rows], (writer.chunk,)),
            "next_obs": StackedFrames(stacks[rows] + 1, (writer.chunk,)),
            "env_id": np.full(3, env),
            "end": np.arange(3) == (2 if env else 3),  # env 0 goes on
        }
        buffer.push(Batch(columns, 3))
    assert buffer.count() == (1 if kind is EpisodeReplayBuffer else 2)
    assert buffer.check_valid() == (True, "")
