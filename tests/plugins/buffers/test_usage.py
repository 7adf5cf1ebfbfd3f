"""What a buffer tells of its use."""

from __future__ import annotations

import logging

import numpy as np
import pytest

from dicore.data import Batch
from dicore.errors import UsageError
from dicore_plugins.buffers import NaiveBuffer


def numbered(start: int, stop: int) -> Batch:
    return Batch({"n": np.arange(start, stop)})


def test_every_draw_is_counted() -> None:
    buffer = NaiveBuffer(
        {"replay_buffer_size": 10, "enable_track_used_data": True}, rng=np.random.default_rng(0)
    )
    buffer.push(numbered(0, 7))
    drawn = [buffer.sample_batch(5)["n"] for _ in range(4)]
    drawn += [batch["n"].copy() for batch in buffer.sample_batches(3, 4)]
    wanted = np.bincount(np.concatenate(drawn), minlength=7)
    assert buffer.use_count.tolist() == wanted.tolist()
    buffer.push(numbered(7, 12))
    assert buffer.use_count.tolist() == [*wanted[2:], 0, 0, 0, 0, 0]


def test_rows_that_nobody_drew_are_counted_when_they_go(caplog: pytest.LogCaptureFixture) -> None:
    options = {
        "replay_buffer_size": 4,
        "enable_track_used_data": True,
        "periodic_thruput_seconds": 1e-9,
    }
    buffer = NaiveBuffer(options)
    buffer.push(numbered(0, 4))
    buffer.push(numbered(4, 10))
    with caplog.at_level(logging.INFO, "dicore.buffer"):
        buffer.sample_batch(4)
    assert "samples/s pushed" in caplog.text
    assert "4 overwritten without a draw" in caplog.text


def test_counts_that_nobody_asked_for_are_refused() -> None:
    buffer = NaiveBuffer()
    buffer.push(numbered(0, 4))
    with pytest.raises(UsageError, match="not tracked"):
        _ = buffer.use_count


def test_rows_handed_out_are_copies_with_or_without_deepcopy() -> None:
    for deepcopy in (False, True):
        buffer = NaiveBuffer({"deepcopy": deepcopy})
        buffer.push(numbered(0, 4))
        buffer.sample(1)[0]["n"] = 99
        buffer.sample_batch(4)["n"][:] = 99
        assert buffer.sample_batch(4)["n"].max() < 4
