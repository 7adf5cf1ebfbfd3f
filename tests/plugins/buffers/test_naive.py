"""NaiveReplayBuffer against a plain list, and what happens at its edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dicore.data import Batch
from dicore.errors import ReplayCapacityError, ReplayUnderflowError, SchemaError, UsageError
from dicore_plugins.buffers.naive.buffer import NaiveBuffer, NaiveReplayBuffer
from dicore_plugins.buffers.naive.config import NaiveConfig
from dicore_plugins.buffers.ring import Ring


def make(size: int, seed: int = 0, **options: Any) -> NaiveReplayBuffer:
    config = NaiveConfig(replay_buffer_size=size, **options)
    return NaiveReplayBuffer(config, rng=np.random.default_rng(seed))


def rows(start: int, count: int) -> Batch:
    numbers = np.arange(start, start + count)
    return Batch({"x": numbers, "obs": np.repeat(numbers[:, None], 2, 1).astype(np.float32)})


def held(buffer: NaiveReplayBuffer) -> list[int]:
    newest = buffer._ring.newest(slice(None))
    return buffer._ring.batch(newest)["x"].tolist() if buffer.count() else []


@given(st.integers(1, 7), st.lists(st.integers(0, 9), max_size=12))
def test_it_is_a_queue(size: int, pushes: list[int]) -> None:
    """Whatever is pushed in whatever pieces, the newest `size` rows are held, in order."""
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


def test_a_full_queue_holds_the_newest() -> None:
    buffer = NaiveBuffer({"replay_buffer_size": 3})
    for number in range(1, 6):
        buffer.push({"x": number})
    assert {row["x"] for row in buffer.sample(300, replace=True)} == {3, 4, 5}


def test_draws_are_uniform() -> None:
    """Chi-square of 30k draws over 10 rows: 27.9 is the 0.999 quantile of 9 degrees."""
    buffer = make(10)
    buffer.push(rows(0, 10))
    counts = np.bincount(buffer.sample_batch(30_000, replace=True)["x"], minlength=10)
    assert ((counts - 3000) ** 2 / 3000).sum() < 27.9


@pytest.mark.parametrize(("stored", "asked"), [(2, 8), (0, 1)])
def test_asking_for_too_much_is_an_error(stored: int, asked: int) -> None:
    buffer = make(10)
    if stored:
        buffer.push(rows(0, stored))
    with pytest.raises(
        ReplayUnderflowError, match=f"cannot sample {asked} from {stored} stored samples"
    ):
        buffer.sample(asked)
    if stored:
        assert len(buffer.sample(asked, replace=True)) == asked


@pytest.mark.parametrize("size", [0, -3])
def test_a_batch_of_no_rows_is_an_error(size: int) -> None:
    buffer = make(10)
    buffer.push(rows(0, 5))
    with pytest.raises(UsageError, match=str(size)):
        buffer.sample_batch(size)


def test_sample_range_draws_from_the_newest() -> None:
    buffer = make(8)
    buffer.push(rows(0, 13))
    drawn = buffer.sample_batch(200, sample_range=slice(-3, None), replace=True)["x"]
    assert set(drawn.tolist()) == {10, 11, 12}


def test_sampled_rows_are_copies() -> None:
    buffer = make(4)
    buffer.push(rows(0, 4))
    for row in buffer.sample(4):
        row["obs"][:] = -1
    assert (buffer.sample_batch(4)["obs"] >= 0).all()


def test_what_was_pushed_is_copied() -> None:
    buffer = make(4)
    data = rows(0, 4)
    buffer.push(data)
    data["obs"][:] = -1
    assert (buffer.sample_batch(4)["obs"] >= 0).all()


def test_in_debug_mode_a_stale_reader_sees_nan() -> None:
    """Recycled memory lives for one more draw; the draw after that spoils it."""
    buffer = make(64, debug=True)
    buffer.push(rows(0, 64))
    first = buffer.sample_batch(8, reuse=True)
    kept = first["obs"].copy()
    buffer.sample_batch(8, reuse=True)
    assert np.array_equal(first["obs"], kept)
    buffer.sample_batch(8, reuse=True)
    assert np.isnan(first["obs"]).all()


def test_recycled_batches_alternate_without_debug() -> None:
    pytest.importorskip("torch")
    buffer = make(64)
    buffer.push(rows(0, 64))
    first = buffer.sample_batch(8, reuse=True)
    kept = first["obs"].copy()
    buffer.sample_batch(8, reuse=True)
    assert np.array_equal(first["obs"], kept)
    assert buffer.sample_batch(8, reuse=True) is first
    assert first.to_torch() is first.to_torch()


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


def test_save_and_load(tmp_path: Any) -> None:
    buffer, twin = make(5, 1), make(5, 2)
    buffer.push(rows(0, 7))
    buffer.save_data(tmp_path / "buffer")
    twin.load_data(tmp_path / "buffer")
    assert held(twin) == held(buffer)
    assert np.array_equal(buffer.sample_batch(4)["x"], twin.sample_batch(4)["x"])


def test_a_state_that_does_not_fit_is_refused() -> None:
    buffer = make(8)
    buffer.push(rows(0, 8))
    with pytest.raises(ReplayCapacityError, match="8 samples"):
        make(4).load_state_dict(buffer.state_dict())


def test_clear_forgets_rows_but_not_ids() -> None:
    buffer = make(4)
    buffer.push(rows(0, 3))
    buffer.clear()
    assert buffer.count() == 0
    assert list(buffer.push(rows(0, 1))) == [3]


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        ({"x": np.arange(2)}, "missing .*obs"),
        ({"x": np.arange(2), "obs": np.zeros((2, 3), np.float32)}, r"obs.*\[2\].*\[3\]"),
        ({"x": np.zeros(2, np.float32), "obs": np.zeros((2, 2), np.float32)}, "x.*int64.*float32"),
        (
            {"x": np.arange(2), "obs": np.zeros((2, 2), np.float32), "y": np.arange(2)},
            "unknown .*y",
        ),
    ],
)
def test_rows_of_another_schema_are_refused_at_push(bad: dict[str, Any], text: str) -> None:
    buffer = make(4)
    buffer.push(rows(0, 1))
    with pytest.raises(SchemaError, match=text):
        buffer.push(Batch(bad))
    assert buffer.count() == 1


def test_nested_observations_are_columns_too() -> None:
    buffer = make(4)
    data = Batch({"obs": {"image": np.ones((6, 2, 2), np.uint8), "speed": np.arange(6)}})
    buffer.push(data)
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
    buffer = NaiveReplayBuffer({})
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
    [(5, "got int"), (None, "got NoneType"), ([{"x": 1}, 5], "got a list with a int")],
)
def test_what_are_no_rows_is_told_so(given: Any, says: str) -> None:
    with pytest.raises(
        SchemaError, match=f"expected a sample, a list of samples or a Batch, {says}"
    ):
        make(3).push(given)
