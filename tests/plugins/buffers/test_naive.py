"""NaiveReplayBuffer against a plain list, its options and messages; the rest is BufferContract."""

from __future__ import annotations

import logging
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dicore import register
from dicore.config import frozen, option
from dicore.data import Batch
from dicore.errors import ReplayCapacityError, ReplayUnderflowError, SchemaError, UsageError
from dicore.run.launch import launch
from dicore.testing.buffer import numbered_rows
from dicore_plugins.buffers import AdvancedReplayBuffer, NaiveBuffer, NaiveReplayBuffer, Ring
from dicore_plugins.buffers.naive.config import NaiveConfig
from dicore_registry import Registry, using


def make(size: int, seed: int = 0, **options: Any) -> NaiveReplayBuffer:
    config = NaiveConfig(replay_buffer_size=size, **options)
    return NaiveReplayBuffer(config, rng=np.random.default_rng(seed))


def rows(start: int, count: int) -> Batch:
    numbers = np.arange(start, start + count)
    return Batch({"x": numbers, "obs": np.repeat(numbers[:, None], 2, 1).astype(np.float32)})


def filled(size: int, count: int, **options: Any) -> NaiveReplayBuffer:
    buffer = make(size, **options)
    buffer.push(rows(0, count))
    return buffer


def held(buffer: NaiveReplayBuffer) -> list[int]:
    return buffer.samples().get("x", np.empty(0)).tolist()


@given(st.integers(1, 7), st.lists(st.integers(0, 9), max_size=12))
def test_it_is_a_queue(size: int, pushes: list[int]) -> None:
    """Whatever is pushed in whatever pieces, the newest `size` samples are held, in order."""
    buffer, model, total = make(size), [], 0
    for count in pushes:
        ids = buffer.push(rows(total, count)) if count else range(0)
        assert list(ids) == list(range(total, total + count)) or count == 0
        model = (model + list(range(total, total + count)))[-size:]
        total += count
        assert held(buffer) == model
        assert buffer.count() == len(model)
        assert buffer.push_count == total
        if model:
            slots = buffer._ring.newest(slice(None))
            assert buffer._ring.ids(slots).tolist() == model


def test_draws_are_uniform() -> None:
    """Chi-square of 30k draws over 10 samples: 27.9 is the 0.999 quantile of 9 degrees."""
    drawn = filled(10, 10).sample_batch(30_000, replace=True)["x"]
    counts = np.bincount(drawn, minlength=10)
    assert ((counts - 3000) ** 2 / 3000).sum() < 27.9


@pytest.mark.parametrize(
    ("stored", "asked", "error", "says"),
    [
        (2, 8, ReplayUnderflowError, r"asked 8, have 2 \(replace=False\)"),
        (0, 1, ReplayUnderflowError, r"asked 1, have 0 \(replace=False\)"),
        (5, 0, UsageError, "batch_size must be >= 1, got 0"),
        (5, -3, UsageError, "batch_size must be >= 1, got -3"),
    ],
)
def test_a_size_that_cannot_be_drawn_is_an_error(
    stored: int, asked: int, error: type[Exception], says: str
) -> None:
    buffer = filled(10, stored) if stored else make(10)
    for sample in (buffer.sample, buffer.sample_batch):
        with pytest.raises(error, match=says):
            sample(asked)


@pytest.mark.parametrize("debug", [True, False])
def test_recycled_memory_lives_for_one_more_draw(debug: bool) -> None:
    """The draw after that overwrites it; in debug mode with NaN, for code that still reads it.

    Draws of other sizes between them do not count.
    """
    buffer = filled(64, 64, debug=debug)
    first = buffer.sample_batch(8, reuse=True)
    copy = first["obs"].copy()
    buffer.sample_batch(4, reuse=True)
    buffer.sample_batch(8, reuse=True)
    assert np.array_equal(first["obs"], copy)
    assert first.to_torch() is first.to_torch()
    third = buffer.sample_batch(8, reuse=True)
    assert np.isnan(first["obs"]).all() if debug else third is first


@given(st.integers(1, 9), st.integers(1, 20), st.integers(0, 99))
@settings(max_examples=40)
def test_state_goes_on_as_it_would_have(size: int, count: int, seed: int) -> None:
    buffer, twin = make(size, seed), make(size, seed + 1)
    buffer.push(rows(0, count))
    buffer.sample_batch(1)
    twin.load_state_dict(buffer.state_dict())
    for _ in range(3):
        assert np.array_equal(buffer.sample_batch(1)["x"], twin.sample_batch(1)["x"])
        assert buffer.push(rows(count, 2)) == twin.push(rows(count, 2))
        assert held(buffer) == held(twin)


def test_a_state_that_does_not_fit_is_refused() -> None:
    buffer = filled(4, 3)
    with pytest.raises(ReplayCapacityError, match="8 samples"):
        buffer.load_state_dict(filled(8, 8).state_dict())
    assert held(buffer) == [0, 1, 2]
    buffer.load_state_dict(filled(8, 4).state_dict())
    assert held(buffer) == [0, 1, 2, 3]


@pytest.mark.parametrize("missing", ["cursor", "columns", "push_count", "rng"])
@pytest.mark.parametrize("kind", [NaiveReplayBuffer, AdvancedReplayBuffer])
def test_a_state_without_one_of_its_parts_changes_nothing(kind: Any, missing: str) -> None:
    buffer = kind({"replay_buffer_size": 4}, rng=np.random.default_rng(0))
    buffer.push(numbered_rows(3))
    before = buffer.sample_batch(3, replace=True)["action"]
    state = filled(8, 4).state_dict()
    with pytest.raises((UsageError, SchemaError), match=r"buffer (that )?has no"):
        buffer.load_state_dict({key: state[key] for key in state if key != missing})
    state["rng"] = np.random.Philox(0).state
    with pytest.raises(ValueError, match="PCG64"):
        buffer.load_state_dict(state)
    assert buffer.count() == 3
    assert set(before.tolist()) <= set(buffer.samples()["action"].tolist())


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ({"x": np.arange(2)}, "missing .*obs"),
        ({"x": np.arange(2), "obs": np.zeros((2, 3), np.float32)}, r"obs.*\[2\].*\[3\]"),
        ({"x": np.zeros(2, np.float32), "obs": np.zeros((2, 2), np.float32)}, "x.*int64.*float32"),
        ({**rows(0, 2).columns, "y": np.arange(2)}, "unknown .*y"),
    ],
)
def test_samples_of_another_schema_are_refused_at_push(bad: dict[str, Any], text: str) -> None:
    buffer = filled(4, 1)
    with pytest.raises(SchemaError, match=text):
        buffer.push(Batch(bad))
    assert buffer.count() == 1


@pytest.mark.parametrize("first", [True, False])
def test_numbers_beyond_float32_are_refused_whole(first: bool) -> None:
    """RELIABILITY B06: 1e300 does not become inf, not even from a producer with a known schema."""
    buffer, schema = make(4), object()
    if not first:
        buffer.push(Batch({"x": np.arange(3), "y": np.ones(3)}, 3, schema))
    with pytest.raises(SchemaError, match=r"column 'y': 1e\+300 is too large for float32"):
        buffer.push(Batch({"x": np.arange(2), "y": np.array([1, 1e300])}, 2, schema))
    assert buffer.count() == buffer.push_count == (0 if first else 3)
    buffer.push(Batch({"x": np.arange(2), "y": np.array([np.inf, np.nan])}, 2))
    assert set(np.isfinite(buffer.sample_batch(50, replace=True)["y"])) == {*[not first, False]}


@pytest.mark.parametrize("shape", [(2, 1), (2, 5), (2,), (2, 4, 1)])
def test_observations_of_another_shape_are_not_broadcast(shape: tuple[int, ...]) -> None:
    """RELIABILITY B05."""
    buffer = make(4)
    buffer.push(Batch({"obs": np.zeros((2, 4), np.float32)}))
    with pytest.raises(SchemaError, match=r"'obs': expected float32\[4\] as stored, got"):
        buffer.push(Batch({"obs": np.zeros(shape, np.float32)}))
    assert buffer.count() == 2


def test_nested_columns_that_pass_the_end_of_the_ring() -> None:
    buffer = make(4)
    buffer.push(Batch({"obs": {"image": np.ones((6, 2, 2), np.uint8), "speed": np.arange(6)}}))
    drawn = buffer.sample_batch(3, reuse=True)
    assert drawn["obs"]["image"].shape == (3, 2, 2)
    assert set(drawn["obs"]["speed"].tolist()) <= {2, 3, 4, 5}


def test_a_known_schema_is_not_checked_again() -> None:
    """A producer that vouches for its batches is believed; that is what makes pushes cheap."""
    ring, schema = Ring(8), object()
    ring.push(Batch({"x": np.arange(2)}, 2, schema))
    ring.push(Batch({"x": np.arange(2)}, 2, schema))
    assert ring.count == 4


def test_priorities_without_effect_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    buffer = NaiveBuffer({})
    for _ in range(2):
        buffer.update({"priority": [1.0]})
    (record,) = caplog.records
    assert "samples uniformly" in record.getMessage()


def test_tensors_are_kept_without_their_graph() -> None:
    buffer = NaiveReplayBuffer({})
    logit = torch.ones(2, requires_grad=True) * 3
    buffer.push([{"logit": logit, "deep": {"reward": torch.tensor(1.0)}}] * 4)
    drawn = buffer.sample_batch(2)
    assert drawn["logit"].tolist() == [[3, 3], [3, 3]]
    assert drawn["deep"]["reward"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("given", "says"),
    [(5, "got int"), (None, "got NoneType"), ([{"x": 1}, 5], "got a list with int")],
)
def test_what_are_no_samples_is_refused(given: Any, says: str) -> None:
    expected = "expected a sample, a list of samples or a Batch"
    with pytest.raises(SchemaError, match=f"{expected}, {says}"):
        make(3).push(given)


def test_samples_are_copies() -> None:
    buffer = filled(4, 4)
    buffer.sample(1)[0]["obs"][:] = 99
    buffer.sample_batch(4)["x"][:] = 99
    assert max(buffer.sample_batch(4)[key].max() for key in ("x", "obs")) < 4


# ---- usage


def test_every_draw_is_counted() -> None:
    buffer = filled(10, 7, enable_track_used_data=True)
    drawn = [buffer.sample_batch(5)["x"] for _ in range(4)]
    drawn += [batch["x"].copy() for batch in buffer.sample_batches(3, 4)]
    wanted = np.bincount(np.concatenate(drawn), minlength=7)
    assert buffer.use_count.tolist() == wanted.tolist()
    buffer.push(rows(7, 5))
    assert buffer.use_count.tolist() == [*wanted[2:], 0, 0, 0, 0, 0]


def test_samples_that_were_never_drawn_are_counted_when_overwritten(
    caplog: pytest.LogCaptureFixture,
) -> None:
    buffer = filled(4, 4, enable_track_used_data=True, periodic_thruput_seconds=1e-9)
    buffer.push(rows(4, 6))
    with caplog.at_level(logging.INFO, "dicore.buffer"):
        buffer.sample_batch(4)
    assert "samples/s pushed" in caplog.text
    assert "4 overwritten without a draw" in caplog.text


def test_counts_start_anew_after_clear() -> None:
    buffer = filled(5, 7, enable_track_used_data=True)
    buffer.sample_batch(5)
    buffer.clear()
    buffer.push(rows(7, 3))
    assert buffer.use_count.tolist() == [0, 0, 0]


def test_counts_without_tracking_are_refused() -> None:
    with pytest.raises(UsageError, match="not tracked"):
        _ = filled(4, 4).use_count


@pytest.mark.parametrize("pushed", [3, 5, 7, 10])
@pytest.mark.parametrize("capacity", [5, 8, 12])
def test_a_state_is_loaded_by_age_into_another_capacity(pushed: int, capacity: int) -> None:
    """G7: no slot is drawn that nothing was written to, and the oldest sample goes first.

    The draw counts follow the samples.
    """
    old = NaiveReplayBuffer({"replay_buffer_size": 5, "enable_track_used_data": True})
    old.push([{"x": np.float32(i)} for i in range(1, pushed + 1)])
    new = NaiveReplayBuffer({"replay_buffer_size": capacity, "enable_track_used_data": True})
    new.load_state_dict(old.state_dict())
    more = range(100, 100 + capacity)
    held = [float(i) for i in range(1, pushed + 1)][-5:]
    for value in more:
        assert set(new.sample_batch(500, replace=True)["x"].tolist()) <= {*held, *map(float, more)}
        new.push({"x": np.float32(value)})
        held = [*held, float(value)][-capacity:]
        assert new.use_count[-1] == 0
        before = new.use_count
        drawn = new.sample_batch(500, replace=True)["x"].tolist()
        assert set(drawn) == set(held)
        more_often = [drawn.count(value) for value in held]
        assert (new.use_count - before).tolist() == more_often


@pytest.mark.parametrize("pushed", [3, 5, 7])
def test_a_bare_ring_is_loaded_by_age_too(pushed: int) -> None:
    old, new = Ring(5), Ring(8)
    old.push(rows(0, pushed))
    new.load_state_dict(old.state_dict())
    new.push(rows(pushed, 1))
    stored = new.batch(new.newest(slice(None)))["x"].tolist()
    assert stored == [*range(pushed + 1)][-min(pushed, 5) - 1 :]


# ---- threads


@pytest.mark.parametrize("draw", ["fresh", "recycled", "several"])
def test_one_thread_pushes_and_two_sample(draw: str) -> None:
    """G8: every sample is whole; its columns are large enough for a push to come between them."""
    wide = 400
    buffer = make(500)

    def numbered(start: int, count: int) -> Batch:
        number = np.arange(start, start + count)
        return Batch({"id": number, "obs": np.repeat(number[:, None], wide, 1), "end": number})

    def torn(batch: Batch) -> bool:
        first, last = batch["obs"][:, 0], batch["obs"][:, -1]
        return not all(np.array_equal(batch["id"], each) for each in (first, last, batch["end"]))

    buffer.push(numbered(0, 500))
    stop, found = time.monotonic() + 0.6, [0, 0]

    def push() -> None:
        start = 500
        while time.monotonic() < stop:
            buffer.push(numbered(start, 64))
            start += 64

    def sample(name: int) -> None:
        while time.monotonic() < stop:
            if draw == "several":
                found[name] += any(map(torn, buffer.sample_batches(3, 64)))
            else:
                found[name] += torn(buffer.sample_batch(64, reuse=draw == "recycled"))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(3) as threads:
            done = [threads.submit(push), threads.submit(sample, 0), threads.submit(sample, 1)]
            for each in done:
                each.result()
    finally:
        sys.setswitchinterval(interval)
    assert found == [0, 0]


# ---- buffers of other packages


class ByHand(NaiveReplayBuffer):
    """Samples by priority, as docs/howto/own_buffer.md teaches: no more than is written there."""

    told = 0

    def sample_batch(self, batch_size: int, *args: Any, **options: Any) -> Batch:
        batch = super().sample_batch(batch_size, *args, **options)
        return Batch({**batch.columns, "replay_unique_id": np.arange(batch_size)}, batch_size)

    def update(self, info: Any) -> None:
        type(self).told += len(info["priority"])
        assert np.array_equal(info["replay_unique_id"], np.arange(8))


@frozen(kw_only=True)
class ByHandConfig(NaiveConfig):
    """Samples by priority."""

    strength: float = option(0.5, "exponent of priorities", gt=0)

    def build(self, ctx: Any, **parts: Any) -> Any:
        return ByHand(self, **parts)


@pytest.mark.parametrize("target", [ByHand, ByHandConfig])
def test_a_derived_buffer_gets_priorities(
    target: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ByHand, "told", 0)
    with using(Registry()):
        register("buffer", "by_hand")(target)
        launch(
            env="cartpole", policy="dqn", exp_name="run", max_env_step=32,
            overrides=["replay_buffer=by_hand", "policy.priority=true", "pipeline.logger=[]",
                       "policy.learn.batch_size=8", "policy.learn.update_per_collect=1",
                       "policy.collect.n_sample=16", "env.n_evaluator_episode=1",
                       "env.evaluator_env_num=1"],
        )  # fmt: skip
    assert ByHand.told >= 8


def test_functions_of_the_base_class_are_found_where_they_were() -> None:
    from dicore_plugins.buffers import base
    from dicore_plugins.buffers.naive import buffer

    with pytest.warns(DeprecationWarning, match=r"use dicore_plugins\.buffers\.base\.stored"):
        assert buffer.stored is base.stored
    with pytest.raises(AttributeError, match="no attribute 'absent'"):
        _ = buffer.absent


def test_a_dict_is_of_the_options_of_a_subclass() -> None:
    @frozen(kw_only=True)
    class OwnConfig(NaiveConfig):
        """Has an option of its own."""

        own: int = option(1, "its own option")

    class Own(NaiveReplayBuffer):
        config_class = OwnConfig

    assert Own({"own": 3})._cfg.own == 3
    assert Own()._cfg.own == 1
